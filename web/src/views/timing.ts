// When something repeats, in words, and the schedule that a plan with a time of its own becomes.

import type { Plan, RunView } from "../data/types";
import { post } from "../live/api";
import { currentLocale, t } from "../words/words";
import { nameIn } from "./steptext";

export interface Timing { every_minutes?: number; daily_at?: string; cron?: string; once_at?: string; timezone?: string }

const DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

export function timingWords(timing: Timing): string {
  const zone = timing.timezone ?? "UTC";
  if (timing.every_minutes) return t("schedules.every").replace("…", String(timing.every_minutes));
  if (timing.daily_at) return `${t("schedules.daily")} ${timing.daily_at} ${zone}`;
  if (timing.once_at) return `${t("schedules.once")} ${timing.once_at} ${zone}`;
  return `${cronWords(timing.cron ?? "") || `${t("schedules.cron")} ${timing.cron ?? ""}`} ${zone}`;
}

// Times on days of the week or of the month; empty for what is more than that.
function cronWords(cron: string): string {
  const [minute = "", hours = "", monthDay = "", month = "", weekDay = "", ...more] = cron.split(" ");
  if (!/^\d{1,2}$/.test(minute) || !/^[\d,]+$/.test(hours) || month !== "*" || more.length) return "";
  const times = listed(hours.split(",").map((hour) => `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`));
  if (weekDay === "*" && monthDay === "*") return `${t("schedules.daily")} ${times}`;
  if (weekDay === "*" && /^[\d,]+$/.test(monthDay)) return t("schedules.monthly", { days: listed(monthDay.split(",")), times });
  const days = weekDay.toUpperCase().split(",").map((each) => each.split("-").map(dayName));
  return monthDay === "*" && days.flat().every(Boolean) ? t("schedules.weekly", { days: listed(days.map((each) => each.join("–"))), times }) : "";
}

const listed = (items: string[]): string => new Intl.ListFormat(currentLocale(), { type: "conjunction" }).format(items);

function dayName(day: string): string {
  const number = /^[0-7]$/.test(day) ? Number(day) % 7 : DAYS.indexOf(day);
  // The first of February of 2026 is a Sunday.
  return number < 0 ? "" : new Intl.DateTimeFormat(currentLocale(), { weekday: "long", timeZone: "UTC" }).format(Date.UTC(2026, 1, 1 + number));
}

// The times that the plan itself carries, as it was asked for.
export function timesOf(plan: Plan | null): string[] {
  const own = Object.entries(plan?.schedules ?? {}).map(([step, timing]) => `${nameIn(plan, step)}: ${timingWords(timing)}`);
  return [...(plan?.schedule ? [timingWords(plan.schedule)] : []), ...own];
}

// Approves exactly the plan that was looked at, for each of its times; the part of an address that shows what came of it.
export async function scheduleRun(run: RunView): Promise<string[]> {
  const made = await post<{ id?: string }>("/v1/schedules", { run: run.id, approve: run.hash });
  return made.id ? ["schedules", made.id] : ["schedules"];
}

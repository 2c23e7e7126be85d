// Which language the page speaks, and how a text, a time, a duration and a price read in it.

import { en } from "./en";
import type { Key, Words } from "./en";

export type { Key } from "./en";
export const LOCALES = ["en", "zh"] as const;
export type Locale = (typeof LOCALES)[number];

const STORED = "plansmith-locale";
let words: Words = en;
let locale: Locale = "en";

export function wantedLocale(): Locale {
  const stored = localStorage.getItem(STORED);
  const found = LOCALES.find((each) => each === stored);
  return found ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
}

// Chinese is loaded only where it is read: the first load stays small.
export async function speak(next: Locale, remember = false): Promise<void> {
  words = next === "zh" ? (await import("./zh")).zh : en;
  locale = next;
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
  if (remember) localStorage.setItem(STORED, next);
}

export const currentLocale = (): Locale => locale;

export function t(key: Key, values: Record<string, string | number> = {}): string {
  return words[key].replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? "")).trim();
}

export function duration(seconds: number): string {
  if (seconds < 1) return t("unit.under");
  const whole = Math.round(seconds);
  if (whole < 60) return t("unit.seconds", { count: whole });
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return join(t("unit.minutes", { count: minutes }), whole % 60 && t("unit.seconds", { count: whole % 60 }));
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return join(t("unit.hours", { count: hours }), minutes % 60 && t("unit.minutes", { count: minutes % 60 }));
  return t("unit.days", { count: Math.round(hours / 24) });
}

const join = (left: string, right: string | 0): string => (right ? `${left} ${right}` : left);

// To make a format takes far longer than to use it, and a list has hundreds.
const formats = new Map<string, unknown>();
function kept<T>(name: string, make: () => T): T {
  const key = `${locale} ${name}`;
  if (!formats.has(key)) formats.set(key, make());
  return formats.get(key) as T;
}

export function money(usd: string | null | undefined): string {
  if (usd === null || usd === undefined || usd === "") return t("app.unknown");
  const amount = Number(usd);
  const digits = amount !== 0 && Math.abs(amount) < 0.1 ? 4 : 2;
  return kept(`usd ${digits}`, () => new Intl.NumberFormat(locale, { style: "currency", currency: "USD", maximumFractionDigits: digits, minimumFractionDigits: 2 })).format(amount);
}

// Tokens that cost nothing are tokens whose price nobody knows.
export const spent = (on: { tokens: number; cost_usd: string }): string =>
  on.tokens > 0 && Number(on.cost_usd) === 0 ? t("report.costUnknown") : money(on.cost_usd);

export const percent = (share: number): string => new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 }).format(share);

export const number = (value: number): string => new Intl.NumberFormat(locale).format(value);

export function bytes(count: number): string {
  const [unit, size] = count >= 1e9 ? ["gigabyte", 1e9] as const : count >= 1e6 ? ["megabyte", 1e6] as const : count >= 1e3 ? ["kilobyte", 1e3] as const : ["byte", 1] as const;
  const digits = count / size < 10 && size > 1 ? 1 : 0;
  return new Intl.NumberFormat(locale, { style: "unit", unit, unitDisplay: size === 1 ? "long" : "short", maximumFractionDigits: digits }).format(count / size);
}

export function moment(at: string | null | undefined): string {
  if (!at) return "";
  const when = new Date(at);
  const today = when.toDateString() === new Date().toDateString();
  return new Intl.DateTimeFormat(locale, today ? { timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" }).format(when);
}

export function ago(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000;
  const format = kept("ago", () => new Intl.RelativeTimeFormat(locale, { numeric: "auto" }));
  if (seconds < 45) return format.format(-Math.max(0, Math.round(seconds)), "second");
  if (seconds < 2700) return format.format(-Math.round(seconds / 60), "minute");
  if (seconds < 79200) return format.format(-Math.round(seconds / 3600), "hour");
  return format.format(-Math.round(seconds / 86400), "day");
}

export const short = (hash: string | null | undefined): string => (hash ?? "").slice(0, 10);

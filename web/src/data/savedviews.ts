// Filters of the list of runs: how they stand in the address, what they ask the server, kept by name.

export const FILTERS = ["q", "status", "origin", "when", "since", "until"] as const;
export type Filter = Partial<Record<(typeof FILTERS)[number], string>>;
export interface SavedView { name: string; filter: Filter }

export const WHENS = ["today", "week", "month"] as const;
const DAYS: Record<string, number> = { today: 0, week: 6, month: 29 };
const KEPT = "plansmith-run-views";
const MOST = 30;

export function filterOf(query: URLSearchParams): Filter {
  const found: Filter = {};
  for (const name of FILTERS) {
    const value = query.get(name);
    if (value) found[name] = value;
  }
  return found;
}

// Days are those of the person: a day begins at their midnight and `until` includes its day.
function midnight(day: Date, later = 0): string {
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + later).toISOString();
}

const dayOf = (text: string): Date | undefined => {
  const [year, month, day] = text.split("-").map(Number);
  return year && month && day ? new Date(year, month - 1, day) : undefined;
};

export function askedOf(filter: Filter, now: Date): URLSearchParams {
  const { q, status, origin, when = "", since = "", until = "" } = filter;
  const asked = new URLSearchParams();
  if (q) asked.set("q", q);
  if (status) asked.set("status", status);
  if (origin) asked.set("origin", origin);
  const back = DAYS[when];
  const from = dayOf(since);
  const to = dayOf(until);
  if (back !== undefined) asked.set("since", midnight(now, -back));
  else if (from) asked.set("since", midnight(from));
  if (to && back === undefined) asked.set("until", midnight(to, 1));
  return asked;
}

export const isFiltered = (filter: Filter): boolean => Object.values(filter).some(Boolean);

const sameFilter = (one: Filter, other: Filter): boolean => FILTERS.every((name) => (one[name] ?? "") === (other[name] ?? ""));

export const nameOf = (views: SavedView[], filter: Filter): string => views.find((each) => sameFilter(each.filter, filter))?.name ?? "";

export function readViews(stored: string | null = localStorage.getItem(KEPT)): SavedView[] {
  try {
    const found: unknown = JSON.parse(stored ?? "[]");
    return Array.isArray(found) ? found.filter(isView).slice(0, MOST) : [];
  } catch {
    return [];
  }
}

function isView(value: unknown): value is SavedView {
  const view = value as SavedView | null;
  return typeof view?.name === "string" && typeof view.filter === "object" && view.filter !== null
    && Object.values(view.filter).every((each) => typeof each === "string");
}

export function keepView(views: SavedView[], name: string, filter: Filter): SavedView[] {
  const next = [{ name, filter }, ...views.filter((each) => each.name !== name)].slice(0, MOST);
  localStorage.setItem(KEPT, JSON.stringify(next));
  return next;
}

export function dropView(views: SavedView[], name: string): SavedView[] {
  const next = views.filter((each) => each.name !== name);
  localStorage.setItem(KEPT, JSON.stringify(next));
  return next;
}

// A long list that is read page by page while its beginning changes: how the pages are joined.

export interface Paged<T> { items: T[]; next: string | null }
interface Named { id: string }

// A new first page over what is known: older rows stay, unless there is a hole before them.
export function withFirst<T extends Named>(known: Paged<T> | undefined, first: Paged<T>): Paged<T> {
  const last = first.items.at(-1)?.id;
  if (!known || first.next === null || last === undefined) return first;
  const at = known.items.findIndex((each) => each.id === last);
  const older = at < 0 ? [] : known.items.slice(at + 1);
  return older.length ? { items: [...first.items, ...older], next: known.next } : first;
}

// The next page, of which nothing is listed twice.
export function withNext<T extends Named>(known: Paged<T>, page: Paged<T>): Paged<T> {
  const listed = new Set(known.items.map((each) => each.id));
  return { items: [...known.items, ...page.items.filter((each) => !listed.has(each.id))], next: page.next };
}

// `last` is the last row of a part, empty for the end of the list.
export interface Part { after: string; last: string; ids: ReadonlySet<string>; size: number }

// The parts of the list to read again so that these rows are right, after the first page. A row that
// is not listed may belong there by now: the newest come first, and their names are in that order.
export function partsWith<T extends Named>(known: Paged<T>, changed: ReadonlySet<string>, first: number, most: number): Part[] {
  const found: Part[] = [];
  const listed = new Set(known.items.map((each) => each.id));
  const unlisted = [...changed].filter((id) => !listed.has(id));
  for (let start = first; start < known.items.length; start += most) {
    const ids = known.items.slice(start, start + most).map((each) => each.id);
    const after = known.items[start - 1]!.id;
    const last = known.next === null && start + most >= known.items.length ? "" : ids.at(-1)!;
    const come = unlisted.filter((id) => id < after && id > last).length;
    if (come || ids.some((id) => changed.has(id))) found.push({ after, last, ids: new Set(ids), size: ids.length + come });
  }
  return found;
}

// Puts rows that were read again in their places; those that did not come back are gone.
export function withPart<T extends Named>(known: Paged<T>, part: Part, fresh: T[]): Paged<T> {
  const place = known.items.findIndex((each) => part.ids.has(each.id));
  if (place < 0) return known;
  const others = known.items.filter((each) => !part.ids.has(each.id));
  const elsewhere = new Set(others.map((each) => each.id));
  const now = fresh.filter((each) => part.ids.has(each.id) || (!elsewhere.has(each.id) && each.id > part.last));
  return { ...known, items: [...others.slice(0, place), ...now, ...others.slice(place)] };
}

export const without = <T extends Named>(known: Paged<T>, gone: ReadonlySet<string>): Paged<T> =>
  ({ ...known, items: known.items.filter((each) => !gone.has(each.id)) });

// All keys from one to another, whichever comes first; the other alone where one is not listed.
export function between(keys: readonly string[], one: string, other: string): string[] {
  const places = [keys.indexOf(one), keys.indexOf(other)];
  return Math.min(...places) < 0 ? [other] : keys.slice(Math.min(...places), Math.max(...places) + 1);
}

// With the shift key all from the last choice to this one, also those that are not drawn.
export function chosenWith(chosen: ReadonlySet<string>, keys: readonly string[], key: string, last: string): Set<string> {
  const made = new Set(chosen);
  for (const each of last ? between(keys, last, key) : [key]) if (chosen.has(key)) made.delete(each); else made.add(each);
  return made;
}

// The difference of two texts, line by line.

export interface Line { kind: "same" | "old" | "new"; text: string }
export interface Hunk { kind: "lines" | "fold"; lines: Line[] }

const MOST = 4_000_000;
const CONTEXT = 3;

const split = (text: string): string[] => {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
};

export function lineDiff(before: string, after: string): Line[] {
  const [old, now] = [split(before), split(after)];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end++;
  const same = (lines: string[]): Line[] => lines.map((text) => ({ kind: "same", text }));
  return [
    ...same(old.slice(0, start)),
    ...middle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...same(old.slice(old.length - end)),
  ];
}

// The longest common lines; of texts too long to compare, all of one and then all of the other.
function middle(old: string[], now: string[]): Line[] {
  const removed = (from: string[]): Line[] => from.map((text) => ({ kind: "old", text }));
  const added = (from: string[]): Line[] => from.map((text) => ({ kind: "new", text }));
  if (!old.length || !now.length || old.length * now.length > MOST) return [...removed(old), ...added(now)];
  const width = now.length + 1;
  const longest = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      longest[i * width + j] = old[i] === now[j] ? longest[(i + 1) * width + j + 1]! + 1
        : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
    }
  }
  const found: Line[] = [];
  let [i, j] = [0, 0];
  while (i < old.length && j < now.length) {
    if (old[i] === now[j]) { found.push({ kind: "same", text: old[i++]! }); j++; }
    else if (longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!) found.push({ kind: "old", text: old[i++]! });
    else found.push({ kind: "new", text: now[j++]! });
  }
  return [...found, ...removed(old.slice(i)), ...added(now.slice(j))];
}

// Changed lines with a few around them; the other ones folded.
export function hunks(lines: Line[]): Hunk[] {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
  });
  const found: Hunk[] = [];
  lines.forEach((line, at) => {
    const kind = near[at] ? "lines" : "fold";
    if (found.at(-1)?.kind !== kind) found.push({ kind, lines: [] });
    found.at(-1)!.lines.push(line);
  });
  return found;
}

export const counted = (lines: Line[]): { added: number; removed: number } => ({
  added: lines.filter((line) => line.kind === "new").length,
  removed: lines.filter((line) => line.kind === "old").length,
});

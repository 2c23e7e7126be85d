// Which rows of a long list are worth drawing: heights as far as they are known, else a guess.

export interface Span { first: number; after: number; above: number; below: number }

const FEWEST = 12;

export class RowHeights {
  private readonly known = new Map<string, number>();
  private keys: readonly string[] = [];
  // Where each row begins, and at the end where the list ends.
  private tops: number[] = [0];
  private stale = true;

  constructor(private readonly guess: number) {}

  setKeys(keys: readonly string[]): void {
    if (keys.length === this.keys.length && keys.every((key, index) => key === this.keys[index])) return;
    this.keys = keys;
    this.stale = true;
  }

  // Whether the height was not known before.
  measure(key: string, height: number): boolean {
    if (Math.abs((this.known.get(key) ?? -1) - height) < 0.5) return false;
    this.known.set(key, height);
    this.stale = true;
    return true;
  }

  top(index: number): number { return this.sums()[Math.min(index, this.keys.length)]!; }

  get height(): number { return this.sums()[this.keys.length]!; }

  // The rows that touch the strip from `from` to `to`, and the room of those that are left out.
  between(from: number, to: number): Span {
    const tops = this.sums();
    const first = Math.max(0, this.rowAt(from));
    // A list off the screen has rows too, so that the Tab key finds it.
    let after = Math.min(this.keys.length, first + FEWEST);
    while (after < this.keys.length && tops[after]! < to) after++;
    return { first, after, above: tops[first]!, below: this.height - tops[after]! };
  }

  private rowAt(offset: number): number {
    const tops = this.sums();
    let low = 0;
    let high = this.keys.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tops[middle + 1]! <= offset) low = middle + 1;
      else high = middle;
    }
    return Math.min(low, Math.max(0, this.keys.length - 1));
  }

  private sums(): number[] {
    if (!this.stale) return this.tops;
    this.stale = false;
    this.tops = [0];
    let total = 0;
    for (const key of this.keys) this.tops.push(total += this.known.get(key) ?? this.guess);
    return this.tops;
  }
}

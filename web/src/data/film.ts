// A run as a film: what it looked like at any instant, folded from its events up to then.

import { fold, merged } from "./run";
import type { RunState } from "./run";
import type { Event, RunView } from "./types";
import { folded, waitsOf } from "./waits";
import type { Folded } from "./waits";

// Every so many events the state is kept, so that going back folds few of them again.
const KEPT = 250;

export const SPEEDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 500, 1000, 5000] as const;
// What a film lasts at most at the speed that it begins with, and how long a hidden wait is seen.
const LASTS = 20_000;
const MARK = 0.04;

export class Film {
  readonly start: number;
  readonly end: number;
  private readonly times: number[];
  private readonly kept: RunState[] = [];
  private now: RunState | undefined;

  constructor(readonly events: readonly Event[], private readonly view: RunView) {
    this.times = events.map((event) => Date.parse(event.at));
    this.start = this.times[0] ?? 0;
    this.end = Math.max(this.start + 1, this.times.at(-1) ?? 0);
  }

  // How many events there were at an instant.
  countAt(at: number): number {
    let low = 0;
    let high = this.times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[middle]! <= at) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  timeOf(index: number): number { return this.times[Math.min(this.times.length - 1, Math.max(0, index))] ?? this.start; }

  // The instants without the waiting, if that is hidden.
  cut(hides: boolean): Folded {
    const waits = hides ? waitsOf(this.events) : [];
    const waited = waits.reduce((total, { from, to }) => total + to - from, 0);
    return folded(this.start, this.end, waits, Math.max(1, (this.end - this.start - waited) * MARK));
  }

  at(count: number): RunState {
    const wanted = Math.max(1, Math.min(count, this.events.length));
    let from = this.now && this.now.last <= wanted ? this.now : this.kept.findLast((each) => each.last <= wanted);
    while ((from?.last ?? 0) < wanted) {
      const last = from?.last ?? 0;
      const next = Math.min(wanted, (Math.floor(last / KEPT) + 1) * KEPT);
      from = fold(this.events.slice(last, next), from);
      if (next % KEPT === 0 && (this.kept.at(-1)?.last ?? 0) < next) this.kept.push(from);
    }
    this.now = from!;
    return this.now;
  }

  // The run as it was: results are shown from the moment they were there.
  viewAt(at: number): RunView {
    const state = this.at(this.countAt(at));
    // Nothing can be done with what is past.
    return { ...merged({ ...this.view, last: -1 }, state), running_hash: "" };
  }
}

export function usualSpeed(length: number): number {
  return SPEEDS.find((speed) => length / speed <= LASTS) ?? SPEEDS.at(-1)!;
}

// What a plan would change, as it is shown before the approval; and what a person chooses of it.

import { useEffect, useState } from "preact/hooks";
import type { Json, RunView } from "../data/types";
import type { OpenCall, PreviewedCall } from "../results/types";
import { get, runPath } from "./api";
import type { ApiError } from "./api";
import { asError } from "./hooks";

interface Page { hash: string; calls: PreviewedCall[]; next: number | null; open: OpenCall[] }
// `out` are calls that are not to be made, `change` has inputs of one's own, by call.
export interface Choice { out: ReadonlySet<string>; change: Readonly<Record<string, Record<string, Json>>>; fresh: boolean }

export interface Shown {
  hash: string;
  calls: PreviewedCall[];
  open: OpenCall[];
  choice: Choice;
  choose: (choice: Partial<Choice>) => void;
}

const NOTHING: Choice = { out: new Set(), change: {}, fresh: false };

// Undefined until all of it is here: who approves it has seen it. Another preview is chosen from anew.
export function usePreview(run: RunView): { shown: Shown | undefined; error: ApiError | undefined } {
  const hash = run.preview?.hash ?? "";
  const [found, setFound] = useState<Omit<Page, "next">>();
  const [error, setError] = useState<ApiError>();
  const [choice, setChoice] = useState(NOTHING);
  useEffect(() => {
    let here = true;
    setError(undefined);
    setChoice(NOTHING);
    if (hash) readAll(run.id).then((all) => { if (here) setFound(all); }, (failure: unknown) => { if (here) setError(asError(failure)); });
    return () => { here = false; };
  }, [run.id, hash]);
  const choose = (more: Partial<Choice>): void => setChoice({ ...choice, ...more });
  return { shown: hash && found?.hash === hash ? { ...found, choice, choose } : undefined, error };
}

async function readAll(run: string): Promise<Omit<Page, "next">> {
  const calls: PreviewedCall[] = [];
  for (let after: number | null = 0; ;) {
    const page: Page = await get<Page>(runPath(run, `/preview?after=${after}&limit=500`), ["calls"]);
    calls.push(...page.calls);
    after = page.next;
    if (after === null) return { hash: page.hash, open: page.open, calls };
  }
}

// What is sent to approve: the plan alone, or with the calls that were seen.
export function approvalOf(run: RunView, shown: Shown | undefined): Record<string, unknown> {
  if (!shown) return { approve: run.hash };
  const { out, change, fresh } = shown.choice;
  return { approve: shown.hash, leave_out: [...out], change, fresh };
}

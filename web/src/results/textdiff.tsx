// A text before and after, line by line: what goes is red, what comes is green, both are marked.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Button } from "../ui/parts";
import { number, t } from "../words/words";
import { counted, hunks, lineDiff } from "./linediff";
import type { Hunk, Line } from "./linediff";

const SIGNS = { same: " ", old: "−", new: "+" } as const;
const MOST = 400;

export function TextDiff({ before, after, label }: { before: string; after: string; label: string }): JSX.Element {
  const lines = useMemo(() => lineDiff(before, after), [before, after]);
  const { added, removed } = counted(lines);
  const parts = useMemo(() => hunks(lines), [lines]);
  return (
    <div class="text-diff">
      <p class="small"><span class="good">{t("result.added", { count: number(added) })}</span> · <span class="bad">{t("result.removed", { count: number(removed) })}</span></p>
      <div class="scroll" tabIndex={0} role="group" aria-label={label}>
        {parts.map((part, index) => <HunkView key={index} hunk={part} />)}
      </div>
    </div>
  );
}

// A difference as the server made it: lines that begin with their sign.
export function UnifiedDiff({ lines, label }: { lines: string[]; label: string }): JSX.Element {
  const shown = lines.filter((line) => !/^(---|\+\+\+) /.test(line)).map((line): Line => (
    { kind: line.startsWith("+") ? "new" : line.startsWith("-") ? "old" : "same", text: line.startsWith("@@") ? "⋯" : line.slice(1) }));
  return <div class="text-diff"><div class="scroll" tabIndex={0} role="group" aria-label={label}><HunkView hunk={{ kind: "lines", lines: shown }} /></div></div>;
}

// Long hunks are shown piece by piece: every line can be reached, none is left out.
function HunkView({ hunk }: { hunk: Hunk }): JSX.Element {
  const [most, setMost] = useState(hunk.kind === "fold" && hunk.lines.length > 4 ? 0 : MOST);
  const left = hunk.lines.length - most;
  return (
    <>
      {hunk.lines.slice(0, most).map((line, index) => <LineView key={index} line={line} />)}
      {left > 0 && <Button kind="quiet" onClick={() => setMost(most + 2000)}>{t(hunk.kind === "fold" ? "result.unchanged" : "result.moreLines", { count: number(left) })}</Button>}
    </>
  );
}

function LineView({ line }: { line: Line }): JSX.Element {
  return <div class={`diff-line ${line.kind}`}><span class="sign">{SIGNS[line.kind]}</span><span>{line.text || " "}</span></div>;
}

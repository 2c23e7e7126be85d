// What a step said while it worked, line by line as it comes.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { RunView } from "../data/types";
import { useEvents } from "../live/journal";
import { t } from "../words/words";
import { precise } from "./times";

// The newest lines; the log has them all.
const MOST = 400;

export function StepOutput({ run, name }: { run: RunView; name: string }): JSX.Element | null {
  const state = run.steps[name];
  const box = useRef<HTMLPreElement>(null);
  const events = useEvents(run.id, Boolean(state?.started_at));
  const lines = useMemo(() => events.filter((event) => event.body.type === "step_progressed" && event.body["step"] === name), [events, name]);
  // New lines are followed unless somebody has scrolled up to read.
  useEffect(() => {
    const list = box.current;
    if (list && list.scrollHeight - list.scrollTop - list.clientHeight < 60) list.scrollTop = list.scrollHeight;
  }, [lines.length]);
  if (lines.length === 0 || !state?.started_at) return null;
  const start = Date.parse(state.started_at);
  return (
    <section class="output">
      <h4>{t("replay.output")}</h4>
      <pre class="json" ref={box} tabIndex={0} role="log" aria-label={t("replay.output")}>
        {lines.slice(-MOST).map((event) => <span key={event.number}><small>{precise(Math.max(0, Date.parse(event.at) - start))}</small> {String(event.body["text"] ?? "")}{"\n"}</span>)}
      </pre>
    </section>
  );
}

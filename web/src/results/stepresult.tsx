// The result of a step: shown where it is whole, else its beginning, its true size, and a way to save all of it.

import type { JSX } from "preact";
import type { Json } from "../data/types";
import { keyed, runPath } from "../live/api";
import { link } from "../route";
import { Icon } from "../ui/icons";
import { bytes, t } from "../words/words";
import { nameIn } from "../views/steptext";
import type { RunView } from "../data/types";
import { LongText } from "./longtext";
import { Markdown } from "./markdown";
import { Result } from "./result";

interface Props { run: RunView; name: string; label: string; value: Json | undefined; size: number; cut: boolean }

export function StepResult({ run, name, label, value, size, cut }: Props): JSX.Element {
  const reply = run.plan?.steps.find((each) => each.id === name)?.kind === "reply";
  if (!cut) return reply && typeof value === "string" ? <Markdown text={value} sourceOf={sourcesOf(run)} /> : <Result value={value} label={label} />;
  return (
    <>
      <LongText text={typeof value === "string" ? value : ""} label={label} mono cut />
      <p class="result-tools"><span class="dim small">{t("inspect.clipped", { size: bytes(size) })}</span>
        <a class="button quiet" download href={keyed(runPath(run.id, `/steps/${encodeURIComponent(name)}?download=true`))}><Icon name="down" />{t("files.download")}</a></p>
    </>
  );
}

// Where a statement of an answer comes from, by the titles of the run's steps.
export const sourcesOf = (run: RunView) => (step: string): { href: string; name: string } | null =>
  (run.steps[step] ? { href: link(["runs", run.id, "run", step]), name: nameIn(run.plan, step) } : null);

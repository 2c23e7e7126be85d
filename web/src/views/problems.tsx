// Problems where they belong: in their step, or above the steps; with what one press can do about them.

import type { JSX } from "preact";
import { fixesFor } from "../data/fixes";
import type { Fix, Group, KnownTool } from "../data/fixes";
import type { Plan, Problem } from "../data/types";
import { useResource } from "../live/hooks";
import { Icon } from "../ui/icons";
import { Button } from "../ui/parts";
import { Prose } from "../ui/prose";
import { t } from "../words/words";
import type { Editor } from "./editing";
import { stepName, titled } from "./steptext";

interface Props { groups: Group[] | undefined; plan: Plan; editor: Editor | undefined; tools: KnownTool[] }

// The tools that a fix may name, read once there is something to fix.
export function useTools(wanted: boolean): KnownTool[] {
  return useResource<{ items: KnownTool[] }>(wanted ? "/v1/tools" : null).value?.items ?? NONE;
}

const NONE: KnownTool[] = [];

export function ProblemList({ groups, plan, editor, tools }: Props): JSX.Element | null {
  if (!groups?.length) return null;
  return (
    <ul class="problems" aria-label={t("review.problems")}>
      {groups.map(({ problem, count }) => (
        <li key={`${problem.code} ${problem.message}`} class={problem.severity}>
          <Icon name={problem.severity} title={t(`hero.${problem.severity}`)} />
          <span><Prose text={titled(problem.message, plan, problem.step ?? undefined)} />{count > 1 && <b> ×{count}</b>}{problem.hint && <small> {problem.hint}</small>}</span>
          {editor && <span class="fixes">{fixesFor(problem, plan, tools).map((fix) => (
            <Button key={fix.kind + fix.name} onClick={() => editor.edit(fix.plan, `fix ${fix.kind} ${fix.name}`)}>{wordOf(fix, problem, plan)}</Button>))}</span>}
        </li>
      ))}
    </ul>
  );
}

// Inside its own step a step needs no name; another one is called by its title.
function wordOf(fix: Fix, problem: Problem, plan: Plan): string {
  if (fix.kind === "answer" && fix.name === problem.step) return t("fix.answerIt");
  const step = fix.kind === "tool" || fix.kind === "argument" || fix.kind === "ask" ? undefined : plan.steps.find((each) => each.id === fix.name);
  return t(`fix.${fix.kind}`, { name: step ? `“${stepName(step)}”` : fix.name });
}

// Versions: how any version of the plan differs from any earlier one, and why there is a new one.

import type { JSX } from "preact";
import type { PlanVersion, RunView } from "../data/types";
import { runPath } from "../live/api";
import { useResource } from "../live/hooks";
import type { Loaded } from "../live/hooks";
import { go } from "../route";
import type { Route } from "../route";
import { Field, Shown } from "../ui/parts";
import { moment, short, t } from "../words/words";
import { DiffView } from "./diffview";
import { nameIn } from "./steptext";

const ORIGINS = ["model", "rules", "person", "submitted", "program", "template", "rerun"] as const;

export function usePlans(run: RunView, wanted = true): Loaded<PlanVersion[]> {
  return useResource(wanted ? runPath(run.id, "/plans") : null, (event) => event.run === run.id && event.body.type === "plan_proposed");
}

export function Versions({ run, route }: { run: RunView; route: Route }): JSX.Element {
  const plans = usePlans(run);
  return <Shown of={plans}>{(value) => <Compare run={run} versions={value} route={route} />}</Shown>;
}

function Compare({ run, versions, route }: { run: RunView; versions: PlanVersion[]; route: Route }): JSX.Element {
  if (versions.length < 2) return <p class="dim">{t("diff.only")}</p>;
  const pick = (name: string, otherwise: number): number => {
    const wanted = Number(route.query.get(name)) - 1;
    return versions[wanted] ? wanted : otherwise;
  };
  const to = pick("to", versions.length - 1);
  const from = pick("from", Math.max(0, to - 1));
  const choose = (change: Record<string, string>): void =>
    go(["runs", run.id, "versions"], { from: String(from + 1), to: String(to + 1), ...change }, true);
  const select = (name: "from" | "to", value: number) => (id: string) => (
    <select id={id} value={String(value + 1)} onChange={(event) => choose({ [name]: event.currentTarget.value })}>
      {versions.map((version, index) => <option key={index} value={String(index + 1)}>{index + 1} · {originWord(version.origin)} · {moment(version.at)}</option>)}
    </select>
  );
  const version = versions[to]!;
  return (
    <section>
      <div class="row"><Field label={t("diff.from")}>{select("from", from)}</Field><Field label={t("diff.to")}>{select("to", to)}</Field></div>
      <Cause version={version} before={versions[to - 1]} />
      <p class="dim small"><code>{short(versions[from]!.hash)}</code> → <code>{short(version.hash)}</code></p>
      <h2>{t("diff.title")}</h2>
      <DiffView before={versions[from]!.plan} after={version.plan} />
    </section>
  );
}

// Why there is another plan, with the error of each step that failed.
export function Cause({ version, before }: { version: PlanVersion; before: PlanVersion | undefined }): JSX.Element | null {
  if (!version.cause) return null;
  return (
    <div class="cause"><p><b>{t("go.cause")}:</b> {version.cause}</p>
      {Object.entries(version.errors).map(([step, error]) => <p key={step} class="small">{nameIn(before?.plan, step)}: <span class="pre bad">{error}</span></p>)}</div>
  );
}

function originWord(origin: string): string {
  const known = ORIGINS.find((each) => each === origin);
  return known ? t(`version.${known}`) : origin;
}

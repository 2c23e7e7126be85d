// A plan that was revised: why, and what is different from the version before.

import type { JSX } from "preact";
import type { RunView } from "../data/types";
import { link } from "../route";
import { Icon } from "../ui/icons";
import { t } from "../words/words";
import { DiffView } from "./diffview";
import { Cause, usePlans } from "./versions";

export function Changed({ run, title }: { run: RunView; title: string }): JSX.Element | null {
  const plans = usePlans(run);
  const versions = plans.value ?? [];
  const last = versions.at(-1);
  const before = versions.at(-2);
  if (!last || !before) return null;
  return (
    <details class="note change" open>
      <summary><Icon name="replanning" /><b>{title}</b></summary>
      <Cause version={last} before={before} />
      <DiffView before={before.plan} after={last.plan} />
      <p><a href={link(["runs", run.id, "versions"])}>{t("tab.versions")}</a></p>
    </details>
  );
}

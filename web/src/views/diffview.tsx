// A difference of two plans, step by step and field by field.

import type { JSX } from "preact";
import { diffPlans, isEmpty, isRule } from "../data/diff";
import { unnumbered } from "../data/listdiff";
import type { FieldChange } from "../data/diff";
import { readable } from "../data/json";
import type { Json, Plan } from "../data/types";
import { t } from "../words/words";
import type { Key } from "../words/words";
import { ruleText } from "./ruletext";
import { nameIn, stepName, summary } from "./steptext";
import { plain } from "./steptitle";

export function DiffView({ before, after }: { before: Plan; after: Plan }): JSX.Element {
  const diff = diffPlans(unnumbered(before), unnumbered(after));
  const nameOf = (id: string): string => nameIn(after.steps.some((each) => each.id === id) ? after : before, id);
  if (isEmpty(diff)) return <p class="dim">{t("diff.same")}</p>;
  return (
    <div class="diff">
      {diff.plan.length > 0 && <article><p class="title">{t("diff.plan")}</p><Fields fields={diff.plan} /></article>}
      {diff.added.map(({ step }) => (
        <article key={step.id} class="added"><p class="title"><span class="chip plus">+ {t("diff.added")}</span> {stepName(step)} <code>{step.id}</code></p>
          <p class="mono">{plain(summary(step), nameOf)}</p>{step.inputs && <p class="dim small">{given(step.inputs, nameOf)}</p>}</article>
      ))}
      {diff.removed.map(({ step }) => (
        <article key={step.id} class="removed"><p class="title"><span class="chip minus">− {t("diff.removed")}</span> {stepName(step)} <code>{step.id}</code></p>
          <p class="mono">{plain(summary(step), nameOf)}</p></article>
      ))}
      {diff.changed.map(({ id, fields }) => (
        <article key={id} class="changed"><p class="title"><span class="chip">± {t("diff.changed")}</span> {nameOf(id)}</p><Fields fields={fields} /></article>
      ))}
      {diff.moved.map(({ id, before: from, after: to }) => (
        <p key={id}>{nameOf(id)} {t("diff.moved", { before: from + 1, after: to + 1 })}</p>
      ))}
    </div>
  );
}

const given = (inputs: Record<string, Json>, nameOf: (id: string) => string): string => Object.entries(inputs).map(([name, value]) => `${name}: ${plain(readable(value), nameOf)}`).join(" · ");

export function Fields({ fields }: { fields: FieldChange[] }): JSX.Element {
  return (
    <dl class="fields">
      {fields.map((field) => (
        <div key={field.path.join(".")}>
          <dt>{fieldName(field.path.join("."))}</dt>
          {field.change !== "added" && <dd class="old"><span class="unseen">{t("diff.before")}</span><Value field={field} value={field.before} /></dd>}
          {field.change !== "removed" && <dd class="fresh"><span class="unseen">{t("diff.after")}</span><Value field={field} value={field.after} /></dd>}
        </div>
      ))}
    </dl>
  );
}

const NAMES: Record<string, Key> = {
  goal: "hero.goal", title: "edit.title", why: "edit.why", tool: "edit.tool", agent: "edit.agent", task: "edit.task", question: "edit.question",
  options: "edit.options", template: "edit.template", instruction: "edit.instruction", over: "edit.over", after: "edit.after",
  timeout_s: "edit.timeout", disabled: "edit.disabled", assumptions: "review.assumptions",
};

// A field as the editor names it, an argument by its own name.
function fieldName(path: string): string {
  const plain = path.replace(/^(each\.)?inputs\./, "");
  const [first = "", ...rest] = plain.split(".");
  const known = plain === path ? NAMES[first] : undefined;
  return known ? [t(known).split(/[,，]/)[0], ...rest.map((each) => (/^\d+$/.test(each) ? String(Number(each) + 1) : each))].join(" ") : plain;
}

function Value({ field, value }: { field: FieldChange; value: Json | undefined }): JSX.Element {
  if (isRule(field.path)) return <span>{ruleText(String(field.path.at(-1)), value)}</span>;
  return <span class="mono">{readable(value)}</span>;
}

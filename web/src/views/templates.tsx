// Templates: good plans kept by name, used with other values.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { editable, typed } from "../data/json";
import type { Json, JsonObject, Plan, RunView } from "../data/types";
import { call, post } from "../live/api";
import { useResource } from "../live/hooks";
import { go, link } from "../route";
import type { Route } from "../route";
import { Button, Confirm, Empty, ErrorNote, Field, Grow, Head, Shown, moveByArrows, useAction } from "../ui/parts";
import { moment, t } from "../words/words";
import { Graph } from "./graph";
import { callee, stepName } from "./steptext";
import "../styles/desk.css";

interface Template {
  name: string;
  version: number;
  goal: string;
  request?: string;
  parameters: JsonObject;
  needed: string[];
  saved_by: string;
  saved_at: string | null;
  plan?: Plan;
}

export function TemplatesView({ route }: { route: Route }): JSX.Element {
  const name = route.parts[1];
  return name ? <One key={name} name={name} /> : <All />;
}

function All(): JSX.Element {
  const templates = useResource<{ items: Template[]; ready?: Template[] }>("/v1/templates");
  return (
    <>
      <Head title={t("templates.title")} />
      <Shown of={templates}>{({ items, ready = [] }) => (<>
        <Ready templates={ready} />
        {items.length === 0
        ? <Empty icon="templates" title={t("templates.empty")} why={t("templates.emptyWhy")}><a class="button" href={link(["runs"], { status: "done" })}>{t("runs.title")}</a></Empty>
        : (
          <ul class="rows" onKeyDown={moveByArrows}>
            {items.map((each) => (
              <li key={each.name}><a data-row href={link(["templates", each.name])}>
                <span class="what"><b>{each.name}</b><small>{each.goal}</small></span>
                <span class="dim">{t("templates.version", { version: each.version })}</span>
                <time dateTime={each.saved_at ?? ""}>{moment(each.saved_at)}</time>
              </a></li>
            ))}
          </ul>
        )}
      </>)}</Shown>
    </>
  );
}

// What comes with Plansmith: it works offline in any folder with tables.
function Ready({ templates }: { templates: Template[] }): JSX.Element | null {
  if (templates.length === 0) return null;
  return (
    <section>
      <h2>{t("ready.title")}</h2>
      <p class="dim">{t("ready.why")}</p>
      <ul class="cards">
        {templates.map((each) => (
          <li key={each.name}><b>{each.request || each.goal}</b><span class="grow" />
            <a class="button" href={link(["templates", each.name])} aria-label={`${t("templates.run")}: ${each.request || each.goal}`}>{t("templates.run")}</a></li>
        ))}
      </ul>
    </section>
  );
}

export const propertiesOf = (parameters: JsonObject): Record<string, JsonObject> =>
  (parameters["properties"] as Record<string, JsonObject> | undefined) ?? {};

function One({ name }: { name: string }): JSX.Element {
  const path = `/v1/templates/${encodeURIComponent(name)}`;
  const template = useResource<Template>(path);
  const [sure, setSure] = useState(false);
  const action = useAction();
  const remove = (): void => action.act(async () => { await call("DELETE", path); go(["templates"]); });
  return (
    <>
      <p><a href={link(["templates"])}>← {t("templates.back")}</a></p>
      <Shown of={template}>{(value) => (
        <>
          <Head title={value.saved_at ? value.name : value.request || value.name} lead={value.saved_at ? value.goal : t("ready.comes")}>
            <a class="button" href={link(["schedules", "new"], { template: value.name })}>{t("report.schedule")}</a>
            {value.saved_at && <Button kind="danger" icon="remove" onClick={() => setSure(true)}>{t("app.delete")}</Button>}
          </Head>
          {value.saved_at && <p class="dim">{t("templates.version", { version: value.version })} · {moment(value.saved_at)} {value.saved_by && t("app.by", { name: value.saved_by })}</p>}
          <Use template={value} path={path} />
          {value.plan && <Steps plan={value.plan} />}
        </>
      )}</Shown>
      <ErrorNote error={action.error} />
      {sure && <Confirm title={t("app.sureDelete")} yes={t("app.delete")} onYes={() => { setSure(false); remove(); }} onNo={() => setSure(false)} />}
    </>
  );
}

function Use({ template, path }: { template: Template; path: string }): JSX.Element {
  const action = useAction();
  const [values, setValues] = useState<Record<string, Json>>({});
  const use = (): void => action.act(async () => {
    const run = await post<RunView>(`${path}/runs`, { parameters: values });
    go(["runs", run.id]);
  });
  return (
    <section class="panel">
      <h2>{t("templates.parameters")}</h2>
      <Parameters template={template} values={values} onChange={setValues} />
      <ErrorNote error={action.error} />
      <div class="actions"><Button kind="primary" disabled={action.busy} onClick={use}>{t("templates.run")}</Button></div>
    </section>
  );
}

export function Parameters({ template, values, onChange }: {
  template: { parameters: JsonObject; needed: string[] }; values: Record<string, Json>; onChange: (values: Record<string, Json>) => void;
}): JSX.Element {
  const fields = Object.entries(propertiesOf(template.parameters));
  if (fields.length === 0) return <p class="dim">{t("templates.noParameters")}</p>;
  const read = (schema: JsonObject, text: string): Json => (schema["type"] === "string" ? text : typed(text));
  return (
    <>
      {fields.map(([name, schema]) => (
        <Field key={name} label={template.needed.includes(name) ? `${name} *` : name} hint={schema["description"] as string | undefined}>
          {(id) => <Grow id={id} value={editable(values[name] ?? schema["default"] ?? "")} onInput={(text) => onChange({ ...values, [name]: read(schema, text) })} />}
        </Field>
      ))}
    </>
  );
}

function Steps({ plan }: { plan: Plan }): JSX.Element {
  return (
    <section>
      <h2>{t("review.steps")} <span class="dim">{plan.steps.length}</span></h2>
      <ol class="written">{plan.steps.map((step) => <li key={step.id}><b>{stepName(step)}</b><small>{callee(step)}</small></li>)}</ol>
      {plan.steps.length <= 200 && <Graph plan={plan} selected={undefined} hrefOf={() => location.hash} />}
    </section>
  );
}

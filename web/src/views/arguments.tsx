// The arguments of a step: names and kinds as the tool's schema says, values typed or picked.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { sameJson } from "../data/diff";
import { editable, isRawNumber, readable, shown, typed } from "../data/json";
import { fieldsOf } from "../data/resulttree";
import type { Field as SchemaField } from "../data/resulttree";
import type { Json, JsonObject, Plan, RunView } from "../data/types";
import { Button, Field, Grow } from "../ui/parts";
import { Origin, originClass } from "../ui/status";
import { t } from "../words/words";
import { RefPicker } from "./refpicker";
import { nameIn } from "./steptext";

export interface Around { run: RunView; plan: Plan; own: string; inMap: boolean }
interface Props {
  inputs: JsonObject; origins: Record<string, string>; path: string; saved: JsonObject | undefined;
  schema: JsonObject | null | undefined; around: Around; put: (inputs: JsonObject, field: string) => void;
}

export function Inputs({ inputs, origins, path, saved, schema, around, put }: Props): JSX.Element {
  const fields = fieldsOf(schema);
  const named = new Map(fields.map((each) => [each.name, each]));
  const originOf = (each: string): string | undefined => {
    if (saved && !sameJson(saved[each], inputs[each])) return "edited";
    const here = `${path}.${each}`;
    return origins[here] ?? Object.entries(origins).find(([key]) => key.startsWith(`${here}.`))?.[1];
  };
  const remove = (each: string): void => {
    const { [each]: _, ...rest } = inputs;
    put(rest, each);
  };
  return (
    <fieldset class="inputs">
      <legend>{t("edit.arguments")}</legend>
      {Object.keys(inputs).length === 0 && <p class="dim">{t("edit.noArguments")}</p>}
      {Object.entries(inputs).map(([each, value]) => (
        <div key={each} class={`input ${originClass(originOf(each))}`}>
          <Argument name={each} value={value} origin={originOf(each)} field={named.get(each)} around={around}
            onChange={(next) => put({ ...inputs, [each]: next }, each)} onRemove={() => remove(each)} />
        </div>
      ))}
      <Missing fields={fields.filter((each) => !(each.name in inputs))} any={fields.length === 0} taken={Object.keys(inputs)} onAdd={(name, value) => put({ ...inputs, [name]: value }, name)} />
    </fieldset>
  );
}

// The arguments that the tool takes and that are not given yet; a name is typed only where no schema is known.
function Missing({ fields, any, taken, onAdd }: { fields: SchemaField[]; any: boolean; taken: string[]; onAdd: (name: string, value: Json) => void }): JSX.Element | null {
  const [name, setName] = useState("");
  if (!any) {
    if (fields.length === 0) return null;
    return (
      <div class="missing">
        {fields.map((each) => (
          <button key={each.name} type="button" class={`chip add-argument ${each.required ? "needed" : ""}`} title={each.about} onClick={() => onAdd(each.name, blank(each))}>
            + {each.name}{each.required && <b> {t("pick.needed")}</b>}
          </button>
        ))}
      </div>
    );
  }
  const wanted = name.trim();
  const why = !wanted ? t("pick.nameFirst") : taken.includes(wanted) ? t("pick.nameTaken", { name: wanted }) : "";
  return (
    <div class="row add">
      <input aria-label={t("edit.argumentName")} placeholder={t("edit.argumentName")} class="mono" value={name} onInput={(event) => setName(event.currentTarget.value)} />
      <Button icon="new" disabled={why !== ""} hint={why} onClick={() => { onAdd(wanted, ""); setName(""); }}>{t("edit.addArgument")}</Button>
    </div>
  );
}

function blank(field: SchemaField): Json {
  if (field.options.length) return field.options[0]!;
  return { boolean: false, array: [], object: {} }[field.type] ?? "";
}

interface ArgumentProps { name: string; value: Json; origin: string | undefined; field: SchemaField | undefined; around: Around; onChange: (value: Json) => void; onRemove: () => void }

function Argument({ name, value, origin, field, around, onChange, onRemove }: ArgumentProps): JSX.Element {
  const choices = field?.options.length ? field.options : field?.type === "boolean" ? [true, false] : [];
  const chosen = choices.findIndex((each) => sameJson(each, value));
  return (
    <Field label={name} hint={field?.about}>{(id) => (
      <>
        {choices.length > 0 && (chosen >= 0 || value === "")
          ? <select id={id} value={String(chosen)} onChange={(event) => onChange(choices[Number(event.currentTarget.value)]!)}>
              {chosen < 0 && <option value="-1" />}
              {choices.map((each, index) => <option key={index} value={String(index)}>{shown(each)}</option>)}
            </select>
          : <ValueBox id={id} value={value} onChange={onChange} />}
        <div class="under">
          <Origin origin={origin} nameOf={(step) => nameIn(around.plan, step)} />
          <span class="grow" />
          <RefPicker {...around} name={name} onPick={(token) => onChange(joined(value, token))} />
          <Button kind="quiet" icon="remove" onClick={onRemove} label={t("edit.removeArgument", { name })}>{""}</Button>
        </div>
      </>
    )}</Field>
  );
}

// A reference replaces an empty value and another reference; text keeps what it says.
function joined(value: Json, token: string): Json {
  const text = typeof value === "string" ? value : "";
  return !text.trim() || /^\{\{[^}]*\}\}$/.test(text.trim()) ? token : `${text} ${token}`;
}

// As it is typed: a reference stands as {{step}}, never as JSON.
const forEdit = (value: Json): string =>
  (value && typeof value === "object" && !Array.isArray(value) && "$from" in value ? readable(value) : editable(value));

export function ValueBox({ id, value, onChange }: { id: string; value: Json; onChange: (value: Json) => void }): JSX.Element {
  // What is typed stays as typed while it means the value: `{"a": 1` on its way to JSON is text.
  const [text, setText] = useState(forEdit(value));
  const shownText = sameJson(typed(text), value) ? text : forEdit(value);
  const complex = typeof value === "object" && value !== null && !isRawNumber(value);
  return <Grow id={id} mono={complex || typeof value === "number"} value={shownText} onInput={(next) => { setText(next); onChange(typed(next)); }} />;
}

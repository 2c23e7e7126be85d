// Which model plans, in one line below the request, and the way to another one.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useResource } from "../live/hooks";
import { Icon } from "../ui/icons";
import { Button } from "../ui/parts";
import { t } from "../words/words";

interface ModelInfo { chosen?: string; model?: string }
type Picker = ComponentType<{ onClose: () => void; onChosen: () => void }>;

// The picker comes when it is asked for.
export function ModelDialogLater(props: { onClose: () => void; onChosen: () => void }): JSX.Element | null {
  const [picker, setPicker] = useState<{ View: Picker }>();
  useEffect(() => { void import("./modelpicker").then((loaded) => setPicker({ View: loaded.ModelDialog })); }, []);
  return picker ? <picker.View {...props} /> : null;
}

// What a person calls a model: the one that comes with Plansmith has a technical name too.
export const modelName = (name: string): string => (name === "rules" ? t("model.rules") : name.startsWith("local:") ? t("model.own") : name);

export function ModelLine(): JSX.Element | null {
  const model = useResource<ModelInfo>("/v1/model");
  const [open, setOpen] = useState(false);
  const named = model.value?.chosen ?? model.value?.model;
  if (!named) return null;
  const none = named === "rules";
  const close = (): void => { setOpen(false); model.reload(); };
  return (
    <div class={`model-line small ${none ? "warn" : "dim"}`}>
      <Icon name={none ? "warning" : "planning"} /><span title={named}>{none ? t("model.none") : t("new.model", { model: modelName(named) })}</span>
      <Button kind={none ? "plain" : "quiet"} onClick={() => setOpen(true)}>{t(none ? "model.setUp" : "model.change")}</Button>
      {open && <ModelDialogLater onClose={close} onChosen={close} />}
    </div>
  );
}

// Views that are loaded when they are first shown.

import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Loading } from "../ui/parts";

// Keeps what was loaded, so that the next one of its kind is there at once.
export function later<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let known: ComponentType<P> | undefined;
  return function Later(props: P): JSX.Element {
    const [, setReady] = useState(Boolean(known));
    useEffect(() => {
      if (!known) void load().then((found) => { known = found; setReady(true); });
    }, []);
    const View = known;
    return View ? <View {...props} /> : <Loading />;
  };
}

export const Markdown = later(async () => (await import("./markdown")).Markdown);
export const StepResult = later(async () => (await import("./stepresult")).StepResult);
export const Result = later(async () => (await import("./result")).Result);
export const StepFiles = later(async () => (await import("./files")).StepFiles);
export const FileView = later(async () => (await import("./fileview")).FileView);
export const ConsentGroup = later(async () => (await import("./consentgroup")).ConsentGroup);
export const PlanPreview = later(async () => (await import("./planpreview")).PlanPreview);
export const ConsentCard = later(async () => (await import("./consent")).ConsentCard);

// The pane beside a list or graph; where there is no room beside, it is brought into view.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../ui/icons";
import { t } from "../words/words";

export function Side({ step, closes, children }: { step: string; closes: string; children: ComponentChildren }): JSX.Element {
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    if (matchMedia("(max-width: 1100px)").matches) box.current?.scrollIntoView({ block: "start" });
  }, [step]);
  return (
    <aside class="side" ref={box} aria-label={t("inspect.title")}>
      <a class="button quiet close" href={closes}><Icon name="failed" title={t("app.close")} /></a>
      {children}
    </aside>
  );
}

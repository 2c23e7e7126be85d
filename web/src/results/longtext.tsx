// A text that is folded where it is long, and whole to its last letter when it is opened.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button, Copy } from "../ui/parts";
import { number, t } from "../words/words";

const LONG = 1_200;
const LINES = 16;

const isLong = (text: string): boolean => text.length > LONG || text.split("\n", LINES + 1).length > LINES;

// `cut`: the text itself is only a beginning, and must not be offered as all of it.
export function LongText({ text, label, mono = false, cut = false }: { text: string; label: string; mono?: boolean; cut?: boolean }): JSX.Element {
  const [whole, setWhole] = useState(false);
  const long = isLong(text);
  const beginning = text.split("\n", LINES).join("\n").slice(0, LONG);
  return (
    <div class={`long-text ${long && !whole ? "folded" : ""}`}>
      <pre class={mono ? "mono" : ""} tabIndex={0} role="group" aria-label={label || t("result.text")}>{long && !whole ? beginning : text}</pre>
      {long && (
        <p class="result-tools">
          <Button kind="quiet" onClick={() => setWhole(!whole)}>{whole ? t("result.less") : t(cut ? "result.beginning" : "result.all", { count: number(text.length) })}</Button>
          {!cut && <Copy text={text} />}
        </p>
      )}
    </div>
  );
}

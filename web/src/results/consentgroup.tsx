// The open consents of one list, as a table: each row is one call, and all of them can be allowed together.

import type { JSX } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import type { Plan, Question } from "../data/types";
import { ApiError, get, post, runPath } from "../live/api";
import { asError } from "../live/hooks";
import { Icon } from "../ui/icons";
import { Button, ErrorNote, Loading, useAction } from "../ui/parts";
import { t } from "../words/words";
import { ConsentCard, headline } from "./consent";
import { Result } from "./result";
import type { WholeQuestion } from "./types";

interface Props { run: string; plan?: Plan | null | undefined; questions: Question[]; onAnswered: () => void }

export function ConsentGroup({ run, plan, questions, onAnswered }: Props): JSX.Element {
  const title = useId();
  const action = useAction();
  const [whole, setWhole] = useState<WholeQuestion[]>();
  const [error, setError] = useState<ApiError>();
  const [outdated, setOutdated] = useState("");
  const [open, setOpen] = useState("");
  const names = questions.map((each) => each.question).join("\n");
  useEffect(() => {
    let here = true;
    readAll(run, questions).then((found) => { if (here) setWhole(found); }, (failure: unknown) => { if (here) setError(asError(failure)); });
    return () => { here = false; };
  }, [run, names, outdated]);
  // One answer for each, bound to what was shown of it.
  const send = (answer: "allow" | "refuse"): void => action.act(async () => {
    try {
      for (const { question, hash, seen } of whole ?? []) await post(runPath(run, "/answers"), { question, hash: hash ?? "", seen, answer });
    } catch (failure) {
      if (!(failure instanceof ApiError) || failure.status !== 409) throw failure;
      setOutdated(failure.message);
    } finally {
      onAnswered();
    }
  });
  if (!whole) return error ? <ErrorNote error={error} /> : <Loading />;
  const columns = [...new Set(whole.flatMap((each) => Object.keys(each.values ?? {})))];
  const count = whole.length;
  return (
    <article class="question own consent" data-kind="consent" aria-labelledby={title}>
      <p class="asker"><Icon name="consent" />{t("consent.asks")}</p>
      <h3 id={title}>{t("consent.callEach", { callee: whole[0]?.callee ?? "", count })}</h3>
      {outdated && <p class="note change" role="alert">{outdated}</p>}
      <div class="scroll" tabIndex={0} role="group" aria-label={t("result.table")}>
        <table class="calls">
          <thead><tr><th>{t("consent.what")}</th>{columns.map((each) => <th key={each}><code>{each}</code></th>)}</tr></thead>
          <tbody>{whole.map((each) => (
            <tr key={each.question}>
              <td><button type="button" class="link" aria-expanded={open === each.question} onClick={() => setOpen(open === each.question ? "" : each.question)}>{each.step} {headline(each, each.now)}</button>
                {each.now?.fails && <p class="bad small">{t("consent.wouldFail")} {each.now.fails}</p>}</td>
              {columns.map((name) => <td key={name}>{each.values && name in each.values && <Result value={each.values[name]} label={name} />}</td>)}
            </tr>))}</tbody>
        </table>
      </div>
      {whole.filter((each) => each.question === open).map((each) => <ConsentCard key={each.question} run={run} plan={plan} question={each} onAnswered={onAnswered} />)}
      <div class="options">
        <Button kind="primary" icon="done" disabled={action.busy} onClick={() => send("allow")}>{t("consent.allowAll", { count })}</Button>
        <Button kind="danger" icon="failed" disabled={action.busy} onClick={() => send("refuse")}>{t("consent.refuseAll", { count })}</Button>
      </div>
      <ErrorNote error={action.error} />
    </article>
  );
}

// A few at a time: a list may have hundreds.
async function readAll(run: string, questions: Question[]): Promise<WholeQuestion[]> {
  const found: WholeQuestion[] = [];
  for (let at = 0; at < questions.length; at += 6) {
    const paths = questions.slice(at, at + 6).map((each) => runPath(run, `/questions/${encodeURIComponent(each.question)}`));
    found.push(...await Promise.all(paths.map((path) => get<WholeQuestion>(path, ["values"]))));
  }
  return found;
}

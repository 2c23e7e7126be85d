// Questions: they take the focus, at most three are shown at once, each with its options, a free answer and "you decide".

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { typed } from "../data/json";
import type { Json, Plan, Question, QuestionKind, RunView } from "../data/types";
import { post, runPath } from "../live/api";
import { ConsentCard, ConsentGroup } from "../results/later";
import { Icon } from "../ui/icons";
import { Button, ErrorNote, Grow, isEnter, useAction } from "../ui/parts";
import { moment, t } from "../words/words";

const AT_ONCE = 3;

type Asking = Pick<RunView, "id" | "questions"> & { plan?: Plan | null };

export function Questions({ run, onAnswered }: { run: Asking; onAnswered: () => void }): JSX.Element | null {
  const title = useId();
  const told = useId();
  const box = useRef<HTMLElement>(null);
  const groups = grouped(run.questions);
  const open = groups.slice(0, AT_ONCE);
  const names = run.questions.map((each) => each.question).join("\n");
  // Whoever types goes on typing, and hears it; everybody else is brought here.
  useEffect(() => {
    if (names && !document.activeElement?.closest("input, textarea, select, dialog, .questions")) box.current?.focus();
  }, [names]);
  const first = open[0]?.[0];
  if (!first) return null;
  const more = groups.length - open.length;
  return (
    <section class="panel questions" ref={box} tabIndex={-1} aria-labelledby={title} aria-describedby={told}>
      <h2 id={title}><Icon name="asking" />{t("ask.title")}</h2>
      <p class="unseen" role="alert" id={told} key={first.question}>{asker(first)}: {first.text}</p>
      {open.map(([question, ...others]) => others.length > 0
        ? <ConsentGroup key={question.step} run={run.id} plan={run.plan} questions={[question, ...others]} onAnswered={onAnswered} />
        : question.kind === "consent" ? <ConsentCard key={question.question} run={run.id} plan={run.plan} question={question} onAnswered={onAnswered} />
          : <Ask key={question.question} run={run.id} question={question} onAnswered={onAnswered} />)}
      {more > 0 && <p class="dim">{t("ask.more", { count: more })}</p>}
    </section>
  );
}

// What Plansmith itself asks comes before what a plan asks; consents to the calls of one list are one question.
function grouped(questions: Question[]): [Question, ...Question[]][] {
  const found = new Map<string, [Question, ...Question[]]>();
  for (const each of questions.toSorted((a, b) => Number(isOwn(b)) - Number(isOwn(a)))) {
    const list = each.kind === "consent" && each.step?.includes("/") ? `list ${each.step.split("/")[0]}` : each.question;
    const known = found.get(list);
    if (known) known.push(each);
    else found.set(list, [each]);
  }
  return [...found.values()];
}

function Ask({ run, question, onAnswered }: { run: string; question: Question; onAnswered: () => void }): JSX.Element {
  const [text, setText] = useState("");
  const action = useAction();
  const send = (body: Record<string, Json>): void => action.act(async () => {
    await post(runPath(run, "/answers"), { question: question.question, hash: question.hash ?? "", ...body });
    onAnswered();
  });
  const options = question.options ?? [];
  const schema = question.answer_schema ?? undefined;
  const plain = !schema || schema["type"] === "string";
  const answer = (): void => { if (text.trim()) send({ answer: plain ? text.trim() : typed(text) }); };
  const choices = options.length ? options : ((schema?.["enum"] as string[] | undefined) ?? []);
  const { kind } = question;
  const chosen = (option: string): Json => kind === "unknown" && option === "done" && text.trim() ? { done: typed(text) } : option;
  return (
    <div class={`question ${OWN.has(kind) ? "own" : "told"}`} data-kind={kind} role="group" aria-label={`${asker(question)}: ${question.text}`}>
      <p class="asker">{OWN.has(kind) && <Icon name="asking" />}{asker(question)}</p>
      <p class="text">{question.text}</p>
      <p class="dim small">
        {question.step && kind !== "step" && t("ask.step", { step: question.step })}
        {question.expires_at && ` · ${t("ask.until", { time: moment(question.expires_at) })}`}
      </p>
      {safeLink(question.link) && <p><a href={question.link} target="_blank" rel="noopener noreferrer">{t("ask.link")}: {question.link}</a></p>}
      {choices.length > 0 && (
        <div class="options">{choices.map((each) => <Button key={String(each)} disabled={action.busy} onClick={() => send({ answer: chosen(each) })}>{label(kind, String(each))}</Button>)}</div>
      )}
      {kind === "unknown" && <Grow mono label={t("ask.result")} placeholder={t("ask.result")} value={text} onInput={setText} />}
      {choices.length === 0 && <div class="answer">
        <Grow label={t("ask.answer")} placeholder={t("ask.answer")} value={text} onInput={setText} mono={!plain}
          onKeyDown={(event) => { if (isEnter(event)) { event.preventDefault(); answer(); } }} />
        <Button kind="primary" disabled={action.busy || !text.trim()} onClick={answer}>{t("ask.send")}</Button>
        {mayLeave(question) && <Button kind="quiet" disabled={action.busy} onClick={() => send({ you_decide: true })} hint={t("ask.decideWhy")}>{t("ask.decide")}</Button>}
      </div>}
      <ErrorNote error={action.error} />
    </div>
  );
}

// Questions of Plansmith itself; their look follows from the kind alone, which no plan can choose.
// Consent has a card of its own.
const OWN: ReadonlySet<QuestionKind> = new Set(["unknown", "limit"]);

const isOwn = (question: Question): boolean => question.kind === "consent" || OWN.has(question.kind);

export const asker = (question: Question): string => t(`ask.by.${question.kind}`, { step: question.step ?? "", callee: question.callee || (question.step ?? "") });

// The choices of Plansmith's own questions in the person's language; what a plan offers stays as it is.
type Choice = "done" | "not_done" | "retry" | "go_on" | "stop";
const CHOICES: ReadonlySet<string> = new Set<Choice>(["done", "not_done", "retry", "go_on", "stop"]);
const label = (kind: QuestionKind, option: string): string =>
  OWN.has(kind) && CHOICES.has(option) ? t(`ask.option.${option as Choice}`) : option;

// A choice among options, a limit, or a step whose fate is unknown takes a person's own word.
function mayLeave(question: Question): boolean {
  const own = question.question.replace(/^request:/, "");
  return !question.options?.length && !question.answer_schema && !own.includes(":");
}

// A link comes from a tool: only a web address may be opened, and it is shown whole.
const safeLink = (link: string | undefined): boolean => /^https?:\/\//i.test(link ?? "");

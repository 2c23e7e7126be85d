// The box under every plan, run and report: what is typed there goes to the run's conversation.
// What it was taken for is shown with the way back; no message approves anything.

import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { answerTaken, mayUndo, newsFor, plans } from "../data/conversation";
import type { Conversation, ConversationRun, Message, RunView, Said } from "../data/types";
import { say, takeBack, useConversation } from "../live/conversations";
import { live } from "../live/stream";
import { go, link } from "../route";
import { Icon } from "../ui/icons";
import { Button, ErrorNote, Grow, isEnter, useAction } from "../ui/parts";
import { currentLocale, t } from "../words/words";

export function FollowUp({ run, reload }: { run: RunView; reload: () => void }): JSX.Element {
  const [opened, setOpened] = useState("");
  const id = run.conversation || opened;
  const talk = useConversation(id || null);
  const news = talk.value && newsFor(run.id, talk.value);
  const moved = (said: Said): void => {
    setOpened(said.conversation);
    talk.reload();
    // The address without a part follows the run: to its plan, its steps or its report.
    if (said.id !== run.id || said.message.kind === "change") go(["runs", said.id]);
    reload();
  };
  return (
    <MessageBox id={id || run.id} busy={run.status === "triaging" || run.status === "planning" || (talk.value !== undefined && plans(talk.value))} onSaid={moved}>
      {news && <Taken key={news.number} id={id} message={news} talk={talk.value!} here={run.id} onUndone={moved} />}
    </MessageBox>
  );
}

// One text and a button. What was typed outlives a reload, an error and a look at another view.
export function MessageBox({ id, busy, onSaid, children, focus = false }: {
  id: string; busy: boolean; onSaid: (said: Said) => void; children?: ComponentChildren; focus?: boolean;
}): JSX.Element {
  const kept = `plansmith-message:${id}`;
  const named = `plansmith-message-key:${id}`;
  const [text, setText] = useState(sessionStorage.getItem(kept) ?? "");
  const action = useAction();
  const write = (next: string): void => {
    setText(next);
    sessionStorage.setItem(kept, next);
    // Other words are another message; the same ones, sent again after a lost answer, are not.
    if (next.trim() !== text.trim()) sessionStorage.removeItem(named);
  };
  const send = (): void => {
    const said = text.trim();
    if (!said || action.busy) return;
    const key = sessionStorage.getItem(named) ?? crypto.randomUUID();
    sessionStorage.setItem(named, key);
    action.act(async () => {
      const came = await say(id, said, currentLocale(), key);
      sessionStorage.removeItem(named);
      // What was typed while the message was read is the next one.
      setText((now) => {
        const left = now.trim() === said ? "" : now;
        sessionStorage.setItem(kept, left);
        return left;
      });
      live.said(came.conversation);
      onSaid(came);
    });
  };
  return (
    <section class="follow-up" aria-label={t("talk.label")}>
      {children}
      <div class="answer">
        <Grow label={t("talk.label")} placeholder={t("talk.placeholder")} value={text} onInput={write} focus={focus}
          onKeyDown={(event) => { if (isEnter(event)) { event.preventDefault(); send(); } }} />
        <Button kind="primary" disabled={action.busy || !text.trim()} onClick={send}>{t("talk.send")}</Button>
      </div>
      <p class="dim small" role="status">{action.busy ? t("talk.reading") : busy ? t("talk.planning") : t("talk.hint")}</p>
      <ErrorNote error={action.error} />
    </section>
  );
}

// What a message was taken for, by whom and why; its answer; and the way back.
export function Taken({ id, message, talk, here, onUndone }: {
  id: string; message: Message; talk: Conversation; here?: string; onUndone: (said: Said) => void;
}): JSX.Element {
  const action = useAction();
  const { kind, reply, undone } = message;
  const value = answerTaken(message);
  const undo = (): void => action.act(async () => {
    const back = await takeBack(id, message.number);
    live.said(id);
    onUndone(back);
  });
  const run = talk.runs.find((each) => each.id === (reply?.run || message.run));
  return (
    <div class="taken" role={here === undefined ? undefined : "status"}>
      {here !== undefined && <p class="said">{message.text}</p>}
      <div class="line"><p class="dim small">
        <Icon name={undone ? "undo" : kind === "review" ? "warning" : "note"} />{" "}
        {undone ? t("talk.undone") : !kind ? t("talk.unread") : kind === "answer" ? t(value ? "talk.as.option" : "talk.as.answer", { question: message.asked || message.question, value }) : t(`talk.as.${kind}`)}
        {message.judge === "model" && ` · ${t("talk.judged")}`}{message.reason && ` · ${message.reason}`}
      </p>{mayUndo(message, talk.runs) && <Button kind="quiet" icon="undo" disabled={action.busy} onClick={undo}>{t("talk.undo")}</Button>}</div>
      {reply && <p class="pre">{kind === "review" && reply.text.includes("plansmith approve") ? t("talk.look") : reply.text}</p>}
      {run && <Where message={message} run={run} here={here} />}
      <ErrorNote error={action.error} />
    </div>
  );
}

// Where to look: the step that an answer is about, the plan that only its own button approves, another run.
function Where({ message, run, here }: { message: Message; run: ConversationRun; here: string | undefined }): JSX.Element | null {
  const step = message.reply?.step;
  if (step) return <a class="button" href={link(["runs", run.id, "plan", step])}>{t("talk.step", { step })}</a>;
  if (message.kind === "review") return <a class="button" href={link(["runs", run.id, ...(run.status === "reviewing" ? ["plan"] : [])])}>{t("talk.decide")}</a>;
  return here === undefined || run.id === here ? null : <a class="button" href={link(["runs", run.id])}>{t("talk.open")}</a>;
}

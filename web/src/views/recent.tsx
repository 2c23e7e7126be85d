// The newest conversations in the rail, each with what in it waits for a person.

import type { JSX } from "preact";
import type { ConversationRow } from "../data/types";
import { useConversations } from "../live/conversations";
import { link } from "../route";
import type { Route } from "../route";
import { Icon } from "../ui/icons";
import { t } from "../words/words";

const SHOWN = 7;

export function Recent({ route }: { route: Route }): JSX.Element | null {
  const rows = useConversations(SHOWN).value?.items ?? [];
  if (rows.length === 0) return null;
  const current = route.parts[0] === "conversations" ? route.parts[1] : undefined;
  return (
    <nav class="recent" aria-label={t("rail.recent")}>
      {rows.map((row) => (
        <a key={row.id} href={link(["conversations", row.id])} aria-current={row.id === current ? "page" : undefined}>
          <span class="name">{row.title}</span>{row.waits && <WaitsIcon waits={row.waits} />}
        </a>
      ))}
    </nav>
  );
}

const ICONS = { question: "asking", review: "reviewing" } as const;

function WaitsIcon({ waits }: { waits: "question" | "review" }): JSX.Element {
  return <span class={`mark s-${ICONS[waits]}`}><Icon name={ICONS[waits]} title={t(`run.${ICONS[waits]}`)} /></span>;
}

export function WaitsBadge({ waits }: { waits: ConversationRow["waits"] }): JSX.Element | null {
  return waits ? <span class={`badge s-${ICONS[waits]}`}><Icon name={ICONS[waits]} />{t(`run.${ICONS[waits]}`)}</span> : null;
}

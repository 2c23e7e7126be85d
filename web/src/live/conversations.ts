// Conversations as they stand now, whoever speaks in them, and what is said from this page.

import { useRef } from "preact/hooks";
import type { Conversation, ConversationRow, Event, Said } from "../data/types";
import { call } from "./api";
import { useResource } from "./hooks";
import type { Loaded } from "./hooks";
import { changesRows, touchesInbox } from "./wakes";

export const conversationPath = (id: string, rest = ""): string => `/v1/conversations/${encodeURIComponent(id)}${rest}`;

export interface Rows { items: ConversationRow[]; next: string | null }

export function useConversations(limit: number): Loaded<Rows> {
  return useResource<Rows>(`/v1/conversations?limit=${limit}`, (event) => touchesInbox(event) || event.body.type === "run_created", () => true);
}

export function useConversation(id: string | null): Loaded<Conversation> {
  const runs = useRef<Set<string>>(new Set());
  const ofOne = (event: Event): boolean => runs.current.has(event.run) && changesRows(event);
  const talk = useResource<Conversation>(id === null ? null : conversationPath(id), ofOne, (said) => said === id);
  runs.current = new Set(talk.value?.runs.map((each) => each.id));
  return talk;
}

// `key` names the message: sent again after a lost connection, it is the same message.
export const say = (id: string, text: string, locale: string, key: string): Promise<Said> =>
  call<Said>("POST", conversationPath(id, "/messages"), { body: { text, locale }, headers: { "Idempotency-Key": key } });

export const takeBack = (id: string, message: number): Promise<Said> =>
  call<Said>("POST", conversationPath(id, `/messages/${message}/undo`));

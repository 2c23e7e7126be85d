// What the server tells about files: those of a run, and those that a call would write.

import type { Json, Question } from "../data/types";

export type FileKind = "picture" | "markdown" | "table" | "json" | "text" | "other";

export interface RunFile {
  path: string;
  step: string;
  at: string;
  state: "as_written" | "changed" | "gone";
  size: number;
  kind: FileKind;
}

export interface FilePreview {
  path: string;
  change: "new" | "changed" | "same" | "deleted";
  size_before: number | null;
  size_after: number | null;
  kind: FileKind;
  before: string | null;
  after: string | null;
}

// What a call would do to files; `seen` goes back with the answer.
export interface FilesPreview {
  files: FilePreview[] | null;
  seen: string;
  would_fail: string;
}

// A question with everything that it is about.
export interface WholeQuestion extends Question, FilesPreview {
  values: Record<string, Json> | null;
  can_change: boolean;
}

"""The tables of claims and processes, and how they came to stores of earlier releases."""

from __future__ import annotations

from typing import Final

# Who executes which run, and which processes live. Every claim gets a higher term.
CLAIMS: Final = """
    CREATE TABLE claims (
        run text PRIMARY KEY, owner text NOT NULL, term bigint NOT NULL
    ){no_rowid};
    CREATE TABLE processes (
        name text PRIMARY KEY,
        machine text NOT NULL,
        pid integer NOT NULL,
        kind text NOT NULL,
        version text NOT NULL,
        lease_s double precision NOT NULL,
        beats bigint NOT NULL,
        seen double precision NOT NULL
    ){no_rowid};
    {terms};
"""
# Under another name, so that earlier releases, which know no terms, no longer execute runs.
_COPY: Final = """
    INSERT INTO claims SELECT run, owner, row_number() OVER (ORDER BY run) FROM owners;
    {after_claims};
    DROP TABLE owners;
"""
FROM_12: Final = CLAIMS + _COPY

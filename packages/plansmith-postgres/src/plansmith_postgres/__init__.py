"""Stores on PostgreSQL, and the queue on which runs wait for a worker.

DBOS carries runs to workers: "advance run X" is a workflow on a queue in the database of the runs.
It carries runs, never steps: what a run has done is in its journal, and only the process that has
claimed it may write there. A workflow that is started twice therefore finds the run busy.
"""

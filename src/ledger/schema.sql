BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS runs (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    channel TEXT NOT NULL,
    broker TEXT NOT NULL,
    dlq TEXT NOT NULL,
    queue TEXT NOT NULL,
    target TEXT NOT NULL,
    path TEXT NOT NULL,
    rate TEXT NOT NULL,
    ramp_ms INTEGER NOT NULL,
    settings TEXT NOT NULL,
    selection TEXT NOT NULL,
    reason TEXT NOT NULL,
    who TEXT NOT NULL,
    tool TEXT NOT NULL,
    planned INTEGER NOT NULL,
    started INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    ended INTEGER,
    took_ms INTEGER NOT NULL DEFAULT 0,
    parts INTEGER NOT NULL DEFAULT 1,
    state TEXT NOT NULL,
    exit INTEGER,
    wish TEXT,
    moved INTEGER NOT NULL DEFAULT 0,
    unsettled INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    held INTEGER NOT NULL DEFAULT 0,
    in_doubt INTEGER NOT NULL DEFAULT 0,
    refailed INTEGER
);
CREATE INDEX IF NOT EXISTS runs_by_channel ON runs (channel, started);
CREATE TABLE IF NOT EXISTS states (
    run INTEGER NOT NULL,
    chunk INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, chunk)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS opened (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    state INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    at INTEGER NOT NULL,
    letter TEXT NOT NULL,
    position TEXT NOT NULL,
    event_id TEXT,
    grp TEXT,
    hash TEXT,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    code TEXT NOT NULL,
    text TEXT,
    behind TEXT,
    letter TEXT NOT NULL,
    event_id TEXT,
    grp TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (
    run INTEGER NOT NULL,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    text TEXT
);
CREATE INDEX IF NOT EXISTS events_by_run ON events (run);
CREATE TABLE IF NOT EXISTS locks (
    dlq TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    run TEXT NOT NULL,
    who TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_start INTEGER NOT NULL,
    beat INTEGER NOT NULL,
    lease_end INTEGER NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = 1;
COMMIT;

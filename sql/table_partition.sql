-- A partitioned table goes to the shards with its partitions; here it is one
-- foreign table.
CREATE SCHEMA part;
SET search_path = part;
SELECT shardlet.create_map('part');
CREATE TABLE events (
	customer_id bigint NOT NULL,
	at date NOT NULL,
	kind int CHECK (kind > 0),
	PRIMARY KEY (customer_id, at, kind)
) PARTITION BY RANGE (at);
CREATE INDEX events_kind ON events (kind);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE events_2 PARTITION OF events (kind DEFAULT 7) FOR VALUES FROM ('2026-02-01') TO ('2026-03-01') PARTITION BY LIST (kind);
CREATE TABLE events_2a PARTITION OF events_2 FOR VALUES IN (1, 7);
CREATE TABLE events_2d PARTITION OF events_2 DEFAULT;
-- Made elsewhere, with its columns in another order and one that is gone.
CREATE TABLE events_3 (gone int, kind int NOT NULL CONSTRAINT events_kind_check CHECK (kind > 0), at date NOT NULL, customer_id bigint NOT NULL);
ALTER TABLE events_3 DROP COLUMN gone;
ALTER TABLE events ATTACH PARTITION events_3 FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
CREATE INDEX events_1_at ON events_1 (at);
INSERT INTO events SELECT g, date '2026-01-05' + g, 1 + g % 8 FROM generate_series(1, 80) g;
CREATE TABLE before AS SELECT * FROM events;
CREATE VIEW busy AS SELECT at, count(*) FROM events GROUP BY at;
SELECT shardlet.distribute('events_1', 'part', 'customer_id');
CREATE VIEW leans AS SELECT * FROM events_1;
SELECT shardlet.distribute('events', 'part', 'customer_id');
SELECT count(*) = (SELECT count(*) FROM events_1) FROM leans;
DROP VIEW leans;
(TABLE before EXCEPT ALL TABLE events) UNION ALL (TABLE events EXCEPT ALL TABLE before);
SELECT count(*) FROM busy;
\d events
\d
SELECT tableoid::regclass, count(*) FROM events GROUP BY 1;
INSERT INTO events VALUES (500, '2026-02-10', 7), (501, '2026-03-10', 2);
SELECT * FROM events WHERE customer_id IN (500, 501) ORDER BY 1;
\set VERBOSITY terse
INSERT INTO events VALUES (500, '2027-02-10', 7);
\set VERBOSITY default
SELECT name, count(*), sum(rows) FROM shardlet.query('part', 'SELECT tableoid::regclass::text, count(*) FROM part.events GROUP BY 1', per_shard => true) AS q(name text, rows bigint)
	GROUP BY name ORDER BY name;
\c contrib_regression_s2
SELECT c.relname, c.relkind, pg_get_expr(c.relpartbound, c.oid), pg_get_partkeydef(c.oid) FROM pg_class c
	WHERE c.relnamespace = 'part'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1;
\d part.events_1
\c contrib_regression
SET search_path = part;
-- The shards still have their partition key.
DROP VIEW busy;
ALTER TABLE events DROP COLUMN at;
ALTER TABLE events ADD COLUMN note text;
-- It comes back as one table.
SELECT shardlet.undistribute('events');
\d events
SELECT count(*), sum(kind) FROM events;

SET client_min_messages = warning;
DROP SCHEMA part CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA part CASCADE');
SELECT shardlet.drop_map('part');

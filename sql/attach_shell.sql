-- Tables that the shards have already, as ordinary tables (shell tables) of the router.
CREATE SCHEMA attach_shell;
SELECT shardlet.create_map('attach_shell', shardlets => 8);
SELECT count(*) FROM shardlet.execute('attach_shell', 'CREATE SCHEMA attach_shell');
SET search_path = attach_shell;
-- Runs a statement on all shards of the map.
CREATE FUNCTION on_shards(statement text) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM shardlet.execute('attach_shell', statement) $$;

-- Each kind of thing that a table has.
SELECT on_shards($$CREATE TYPE attach_shell.state AS ENUM ('new', 'done')$$);
SELECT on_shards($$CREATE FUNCTION attach_shell.unknown(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1'$$);
SELECT on_shards($$CREATE TABLE attach_shell.orders (customer_id bigint NOT NULL, id bigserial, state attach_shell.state DEFAULT 'new' NOT NULL,
	amount numeric(8,2) CHECK (amount > 0), twice numeric GENERATED ALWAYS AS (amount * 2) STORED, note text COLLATE "C" DEFAULT 'none',
	during int4range, ip inet, PRIMARY KEY (customer_id, id) INCLUDE (note), UNIQUE (id), EXCLUDE USING gist (during WITH &&),
	EXCLUDE USING btree (customer_id WITH =, ip WITH =)) WITH (fillfactor = 70)$$);
SELECT on_shards($$CREATE INDEX orders_note ON attach_shell.orders (lower(note) DESC) INCLUDE (state) WITH (fillfactor = 60) WHERE note <> ''$$);
SELECT on_shards($$CREATE UNIQUE INDEX orders_unique ON attach_shell.orders (customer_id, note)$$);
SELECT on_shards($$CREATE UNIQUE INDEX orders_local ON attach_shell.orders (note) NULLS NOT DISTINCT WHERE note <> ' NULLS NOT DISTINCT'$$);
SELECT on_shards($$CREATE INDEX orders_unknown ON attach_shell.orders (attach_shell.unknown(note))$$);
SELECT on_shards($$CREATE INDEX orders_gin ON attach_shell.orders USING gin (to_tsvector('simple', note))$$);
SELECT on_shards($$ALTER TABLE attach_shell.orders ADD CONSTRAINT late CHECK (note <> 'x') NOT VALID, CLUSTER ON orders_unique$$);
SELECT on_shards($$ALTER TABLE attach_shell.orders ALTER note SET STORAGE EXTERNAL, ALTER note SET STATISTICS 500$$);
SELECT on_shards($$CREATE STATISTICS attach_shell.orders_stat ON state, note FROM attach_shell.orders$$);
SELECT on_shards($$COMMENT ON TABLE attach_shell.orders IS 'what was ordered'$$);
SELECT on_shards($$COMMENT ON COLUMN attach_shell.orders.note IS 'by the customer'$$);
SELECT on_shards($$COMMENT ON INDEX attach_shell.orders_unique IS 'an index'$$);
SELECT on_shards($$COMMENT ON STATISTICS attach_shell.orders_stat IS 'statistics'$$);
SELECT on_shards($$COMMENT ON CONSTRAINT orders_pkey ON attach_shell.orders IS 'a key'$$);
SELECT on_shards($$COMMENT ON CONSTRAINT orders_id_key ON attach_shell.orders IS 'a key of each shard'$$);
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');
\d orders
SELECT a.attstorage, a.attstattarget, col_description(c.oid, a.attnum), c.reloptions, m.amname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'note'
	JOIN pg_am m ON m.oid = c.relam WHERE c.oid = 'orders'::regclass;
SELECT obj_description('orders'::regclass, 'pg_class') AS "table", obj_description('orders_unique'::regclass, 'pg_class') AS index,
	(SELECT obj_description(oid, 'pg_statistic_ext') FROM pg_statistic_ext WHERE stxrelid = 'orders'::regclass) AS statistics,
	(SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conname = 'orders_pkey') AS constraint;
SELECT * FROM shardlet.tables WHERE tbl = 'orders'::regclass;

-- The primary key is known: GROUP BY it.  What is unique on each shard only is not.
INSERT INTO orders (customer_id, amount, note) SELECT g, g, 'n' || g FROM generate_series(1, 20) g;
SELECT customer_id, state, amount, twice, note, count(*) FROM orders GROUP BY customer_id, id ORDER BY customer_id LIMIT 3;
SELECT note, count(*) FROM orders GROUP BY id;
CREATE VIEW grouped AS SELECT customer_id, amount, count(*) FROM orders GROUP BY customer_id, id;
SELECT sum(amount), sum(count) FROM grouped;
SELECT count(*), count(DISTINCT id) FROM orders;
INSERT INTO orders (customer_id, id, amount) VALUES (1, 1, 1) ON CONFLICT ON CONSTRAINT orders_pkey DO NOTHING;
INSERT INTO orders (customer_id, id, amount) VALUES (1, 1, 7) ON CONFLICT (customer_id, id) DO UPDATE SET amount = excluded.amount RETURNING amount;
\set VERBOSITY terse
INSERT INTO orders (customer_id, amount) VALUES (1, -1);
INSERT INTO orders (customer_id, id, amount, note) VALUES (1, 1, 1, 'again');
\set VERBOSITY default

-- Attaching again with nothing changed changes nothing.
CREATE TEMP TABLE before AS SELECT indexrelid FROM pg_index WHERE indrelid = 'orders'::regclass;
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');
SELECT count(*) FROM (SELECT indexrelid FROM pg_index WHERE indrelid = 'orders'::regclass EXCEPT SELECT indexrelid FROM before) x;
DROP VIEW grouped;

-- Foreign keys: of tables that the router has both of, whichever comes first.  None is checked by a query.
CREATE TABLE country (code text PRIMARY KEY, name text);
INSERT INTO country VALUES ('no', 'Norway'), ('at', 'Austria');
SELECT shardlet.make_reference('country');
SELECT on_shards($$CREATE TABLE attach_shell.lines (customer_id bigint NOT NULL, order_id bigint NOT NULL, line int NOT NULL, origin text REFERENCES attach_shell.country,
	parent int, other_order bigint REFERENCES attach_shell.orders (id), PRIMARY KEY (customer_id, order_id, line),
	CONSTRAINT to_order FOREIGN KEY (customer_id, order_id) REFERENCES attach_shell.orders ON DELETE CASCADE,
	CONSTRAINT to_self FOREIGN KEY (customer_id, order_id, parent) REFERENCES attach_shell.lines)$$);
SELECT on_shards($$CREATE TABLE attach_shell.parcels (customer_id bigint NOT NULL, order_id bigint NOT NULL, line int NOT NULL)$$);
SELECT on_shards($$ALTER TABLE attach_shell.parcels ADD CONSTRAINT to_line FOREIGN KEY (customer_id, order_id, line) REFERENCES attach_shell.lines NOT VALID$$);
SELECT shardlet.attach('parcels', 'attach_shell', 'customer_id');
SELECT shardlet.attach('lines', 'attach_shell', 'customer_id');
\d lines
\d parcels
SELECT conrelid::regclass, conname, convalidated FROM pg_constraint WHERE contype = 'f' AND connamespace = 'attach_shell'::regnamespace ORDER BY 1, 2;
INSERT INTO lines SELECT customer_id, id, 1, 'no' FROM orders WHERE customer_id < 5;
INSERT INTO lines VALUES (1, 2, 3);
INSERT INTO lines SELECT customer_id, id, 2, 'xx' FROM orders WHERE customer_id = 2;
DELETE FROM country WHERE code = 'no';
DELETE FROM orders WHERE customer_id = 4;
SELECT count(*) FROM lines;

-- Refreshing: columns, keys, indexes, CHECK constraints, foreign keys.
SELECT on_shards($$ALTER TABLE attach_shell.parcels DROP CONSTRAINT to_line$$);
SELECT on_shards($$ALTER TABLE attach_shell.lines DROP CONSTRAINT to_self, DROP CONSTRAINT lines_other_order_fkey, DROP CONSTRAINT to_order, DROP COLUMN parent$$);
SELECT on_shards($$ALTER TABLE attach_shell.orders DROP CONSTRAINT orders_pkey, ADD CONSTRAINT orders_pkey PRIMARY KEY (customer_id, id), DROP CONSTRAINT late,
	DROP CONSTRAINT orders_amount_check, ADD CONSTRAINT above CHECK (amount > -1)$$);
SELECT on_shards($$DROP INDEX attach_shell.orders_note, attach_shell.orders_local, attach_shell.orders_gin, attach_shell.orders_unknown$$);
SELECT on_shards($$DROP STATISTICS attach_shell.orders_stat$$);
SELECT on_shards($$ALTER TABLE attach_shell.orders ADD paid timestamptz DEFAULT now(), ADD n bigserial, ALTER note DROP DEFAULT, ALTER note TYPE int USING length(note),
	ALTER amount SET NOT NULL, ALTER during TYPE text, DROP COLUMN ip, DROP CONSTRAINT orders_during_excl$$);
SELECT on_shards($$CREATE INDEX orders_local ON attach_shell.orders (paid)$$);
SELECT on_shards($$CREATE UNIQUE INDEX orders_more ON attach_shell.orders (customer_id, paid, id)$$);
SELECT on_shards($$COMMENT ON TABLE attach_shell.orders IS 'changed'$$);
SELECT on_shards($$ALTER TABLE attach_shell.lines ADD CONSTRAINT to_order FOREIGN KEY (customer_id, order_id) REFERENCES attach_shell.orders ON DELETE SET NULL (order_id)$$);
BEGIN;
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');
ROLLBACK;
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');
\d orders
SELECT obj_description('orders'::regclass, 'pg_class');
SELECT shardlet.attach('lines', 'attach_shell', 'customer_id');
SELECT shardlet.attach('parcels', 'attach_shell', 'customer_id');
\d lines
\d parcels
SELECT customer_id, amount, note, during, n IS NOT NULL AS has_n FROM orders ORDER BY customer_id, amount LIMIT 2;
INSERT INTO orders (customer_id, amount, note) VALUES (30, 1, 7) RETURNING note, paid IS NOT NULL AS has_paid, n IS NOT NULL AS has_n;
SELECT on_shards('ALTER TABLE attach_shell.orders DROP COLUMN twice, ADD COLUMN twice numeric GENERATED ALWAYS AS (amount + amount) STORED');
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');

-- A primary key without the shard key is a plain index; of a spread map all are.
SELECT on_shards('CREATE TABLE attach_shell.events (id int PRIMARY KEY, k bigint NOT NULL, v text)');
SELECT on_shards('CREATE TABLE attach_shell.kinds (k bigint NOT NULL, v text UNIQUE)');
SELECT shardlet.attach('events', 'attach_shell', 'k');
SELECT shardlet.attach('kinds', 'attach_shell', 'k');
INSERT INTO events SELECT g / 10, g, 'v' || g / 10 FROM generate_series(0, 19) g ON CONFLICT DO NOTHING;
SELECT v, count(*) FROM events GROUP BY id;
SELECT count(*) FROM (SELECT DISTINCT e.k FROM events e LEFT JOIN kinds d ON d.v = e.v) x;
\d events
SELECT shardlet.detach('events'), shardlet.detach('kinds');
SELECT shardlet.create_map('attach_shell_spread', 'spread');
SELECT shardlet.attach('kinds', 'attach_shell_spread');
\d kinds
SELECT shardlet.detach('kinds');

-- On one shard they hold.
SELECT shardlet.attach('events', shard => 's1');
\d events
SELECT v, count(*) FROM events GROUP BY id HAVING count(*) > 1;
SELECT tbl, kind, attached FROM shardlet.tables WHERE tbl = 'events'::regclass;
SELECT shardlet.attach('events', shard => 's1');
SELECT shardlet.detach('events');

-- Partitions, and partitions of these, in another schema too.
SELECT on_shards('CREATE SCHEMA attach_shell_old');
SELECT on_shards($$CREATE TABLE attach_shell.log (customer_id bigint NOT NULL, day date NOT NULL, kind text NOT NULL DEFAULT 'x', n int CHECK (n > 0), PRIMARY KEY (customer_id, day, kind)) PARTITION BY RANGE (day)$$);
SELECT on_shards($$CREATE TABLE attach_shell_old.log_2024 PARTITION OF attach_shell.log FOR VALUES FROM (MINVALUE) TO ('2025-01-01')$$);
SELECT on_shards($$CREATE TABLE attach_shell.log_2025 PARTITION OF attach_shell.log (CONSTRAINT own CHECK (n < 100)) FOR VALUES FROM ('2025-01-01') TO ('2026-01-01') PARTITION BY LIST (kind)$$);
SELECT on_shards($$CREATE TABLE attach_shell.log_2025_x PARTITION OF attach_shell.log_2025 FOR VALUES IN ('x', 'it''s')$$);
SELECT on_shards($$CREATE TABLE attach_shell.log_2025_rest PARTITION OF attach_shell.log_2025 DEFAULT$$);
SELECT on_shards('CREATE INDEX log_n ON attach_shell.log (n)');
SELECT on_shards('CREATE UNIQUE INDEX own_n ON attach_shell_old.log_2024 (n)');
SELECT on_shards($$COMMENT ON TABLE attach_shell_old.log_2024 IS 'old'$$);
SELECT shardlet.attach('log', 'attach_shell', 'customer_id');
\d log
SELECT t.relid, t.parentrelid, t.level, pg_get_expr(c.relpartbound, c.oid), m.amname FROM pg_partition_tree('log') t JOIN pg_class c ON c.oid = t.relid
	LEFT JOIN pg_am m ON m.oid = c.relam ORDER BY t.level, t.relid::text;
\d log_2025
\d attach_shell_old.log_2024
SELECT tbl, attached FROM shardlet.tables WHERE tbl::text LIKE '%log%';
INSERT INTO log SELECT g, date '2024-06-01' + g * 20, CASE g % 2 WHEN 0 THEN 'x' ELSE 'y' END, g FROM generate_series(1, 20) g;
INSERT INTO log_2025_x VALUES (99, '2025-02-02', 'x', 1);
SELECT count(*), sum(n) FROM log;
SELECT (SELECT count(*) FROM log_2025) AS log_2025, (SELECT count(*) FROM log_2025_x) AS log_2025_x, (SELECT count(*) FROM attach_shell_old.log_2024) AS log_2024;
SELECT kind, n, count(*) FROM log GROUP BY customer_id, day, log.kind ORDER BY n, kind LIMIT 2;
-- Its partitions change: one more, one dropped, one with other bounds.
SELECT on_shards('DROP TABLE attach_shell.log_2025_x');
SELECT on_shards($$CREATE TABLE attach_shell.log_2027 PARTITION OF attach_shell.log FOR VALUES FROM ('2027-01-01') TO ('2028-01-01')$$);
SELECT on_shards('ALTER TABLE attach_shell.log DETACH PARTITION attach_shell_old.log_2024');
SELECT on_shards($$ALTER TABLE attach_shell.log ATTACH PARTITION attach_shell_old.log_2024 FOR VALUES FROM ('2020-01-01') TO ('2025-01-01')$$);
SELECT on_shards('ALTER TABLE attach_shell.log ADD extra int DEFAULT 5, ALTER n TYPE bigint');
SELECT shardlet.attach('log', 'attach_shell', 'customer_id');
\d log
SELECT t.relid, t.parentrelid, t.level, pg_get_expr(c.relpartbound, c.oid), m.amname FROM pg_partition_tree('log') t JOIN pg_class c ON c.oid = t.relid
	LEFT JOIN pg_am m ON m.oid = c.relam ORDER BY t.level, t.relid::text;
INSERT INTO log VALUES (1, '2027-03-03', 'z', 3);
SELECT extra, n FROM log_2027;
SELECT count(*), sum(extra) FROM log;
SELECT shardlet.detach('log_2027');
SELECT shardlet.undistribute('log_2027');
SELECT shardlet.attach('log_2027', 'attach_shell', 'customer_id');

-- Back: a plain table with rows, while the shards keep theirs.
SELECT shardlet.undistribute('log');
SELECT count(*), sum(extra) FROM log;
\d log
SELECT on_shards('CREATE TABLE attach_shell.single (id int PRIMARY KEY, k bigint NOT NULL, v text UNIQUE)');
SELECT shardlet.attach('single', 'attach_shell', 'k');
INSERT INTO single SELECT g, g, 'v' || g FROM generate_series(1, 20) g;
SELECT shardlet.undistribute('single');
\d single
SELECT count(*), sum(id) FROM single;
SELECT sum(rows) FROM shardlet.query('attach_shell', 'SELECT count(*) FROM attach_shell.single', per_shard => true) AS q(rows bigint);
INSERT INTO single VALUES (1, 1, 'x');
-- A key that is unique on each shard only cannot be made of all rows.
DROP TABLE single;
SELECT shardlet.attach('single', 'attach_shell', 'k');
INSERT INTO single SELECT 100 + g / 10, g, 'w' || g FROM generate_series(0, 19) g ON CONFLICT DO NOTHING;
SELECT count(*) > 22 AS has_duplicates FROM single;
\set VERBOSITY terse
SELECT shardlet.undistribute('single');
\set VERBOSITY default
SELECT count(*) > 22 AS is_attached FROM single;

-- Foreign keys: those to tables that stay on the shards go, and come back with the last of both.
BEGIN;
SELECT shardlet.undistribute('orders');
\d lines
SELECT shardlet.undistribute('lines');
\d lines
SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM lines) AS lines;
ROLLBACK;
SELECT shardlet.undistribute('lines');
\d lines
-- They do not keep a table from being detached.
SELECT shardlet.detach('orders');
SELECT shardlet.attach('parcels', 'attach_shell', 'customer_id');
SELECT to_regclass('orders'), to_regclass('orders_pkey');
SELECT sum(rows) FROM shardlet.query('attach_shell', 'SELECT count(*) FROM attach_shell.orders', per_shard => true) AS q(rows bigint);

-- A schema at a time.
DROP TABLE lines, log;
SELECT shardlet.detach('single');
IMPORT FOREIGN SCHEMA attach_shell EXCEPT (country, parcels, kinds) FROM SERVER s1 INTO attach_shell OPTIONS (map 'attach_shell', key 'customer_id', verify 'false');
IMPORT FOREIGN SCHEMA attach_shell LIMIT TO (orders, lines, log) FROM SERVER s1 INTO attach_shell OPTIONS (map 'attach_shell', key 'customer_id');
SELECT tbl, kind, attached FROM shardlet.tables WHERE tbl::text IN ('orders', 'lines', 'log') ORDER BY tbl::text;
SELECT c.relkind, count(*) FROM pg_class c WHERE c.relnamespace = 'attach_shell'::regnamespace AND c.relname IN ('orders', 'lines', 'log') GROUP BY 1 ORDER BY 1;
SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'f' AND connamespace = 'attach_shell'::regnamespace AND conrelid = 'lines'::regclass ORDER BY 2;
SELECT count(*) FROM log;

-- Definitions that differ, tables that are missing, and relations of the router.
SELECT shardlet.attach('orders', shard => 's1');
SELECT shardlet.detach('orders');
SELECT count(*) FROM shardlet.execute('attach_shell', 'CREATE INDEX orders_s3 ON attach_shell.orders (amount)', shards => '{s3}');
DO $$ BEGIN PERFORM shardlet.attach('orders', 'attach_shell', 'customer_id'); EXCEPTION WHEN SQLSTATE 'SL006' THEN RAISE NOTICE '%: %', sqlstate, sqlerrm; END $$;
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');
SELECT count(*) FROM shardlet.execute('attach_shell', 'DROP INDEX attach_shell.orders_s3', shards => '{s3}');
SELECT count(*) FROM shardlet.execute('attach_shell', 'DROP TABLE attach_shell.parcels', shards => '{s2}');
SELECT shardlet.detach('parcels');
SELECT shardlet.attach('parcels', 'attach_shell', 'customer_id');
SELECT shardlet.attach('nonesuch', 'attach_shell', 'customer_id');
CREATE TABLE orders (id int);
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');
DROP TABLE orders;
CREATE TABLE orders_pkey (id int);
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');
DROP TABLE orders_pkey;
SELECT shardlet.attach('orders', 'attach_shell', 'customer_id');
SELECT shardlet.detach('orders');
-- A partition's name is taken: nothing stays behind.
SELECT shardlet.detach('log');
CREATE TABLE log_2027 (id int);
SELECT shardlet.attach('log', 'attach_shell', 'customer_id');
SELECT to_regclass('log'), to_regclass('log_2025');
DROP TABLE log_2027;
-- Partitioned on the shards, and not on the router.
SELECT shardlet.attach('kinds', 'attach_shell', 'k');
SELECT on_shards('DROP TABLE attach_shell.kinds');
SELECT on_shards('CREATE TABLE attach_shell.kinds (k bigint NOT NULL, v text) PARTITION BY HASH (k)');
SELECT shardlet.attach('kinds', 'attach_shell', 'k');

-- Dropping leaves the shards alone.
SELECT shardlet.attach('log', 'attach_shell', 'customer_id');
SELECT shardlet.detach('log');
SELECT sum(rows) FROM shardlet.query('attach_shell', 'SELECT count(*) FROM attach_shell.log', per_shard => true) AS q(rows bigint);

SET client_min_messages = warning;
SELECT on_shards('DROP TABLE attach_shell.lines');
SELECT shardlet.undistribute('country');
DROP SCHEMA attach_shell, attach_shell_old CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA attach_shell, attach_shell_old CASCADE');
SELECT shardlet.drop_map(map) FROM shardlet.maps WHERE map::text LIKE 'attach_shell%';

-- Foreign keys of shell tables: from tables of the router, to reference tables, and among themselves.
CREATE SCHEMA fks;
CREATE SCHEMA fks_plain;
SET search_path = fks;
SELECT shardlet.create_map('fks'), shardlet.create_map('fks_other');

-- Runs a statement on the tables of both schemas, of which one has plain tables only, and returns the result;
-- both results, if they differ.
CREATE FUNCTION outcome(path text, statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
	detail text;
BEGIN
	PERFORM set_config('search_path', path, true);
	EXECUTE statement;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n || ' rows';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN concat_ws(' ', SQLSTATE, SQLERRM, detail);
END $$;
CREATE FUNCTION contents(path text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text;
	line text;
	result text := '';
BEGIN
	FOR name IN SELECT relname FROM pg_class WHERE relnamespace = 'fks_plain'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1 LOOP
		EXECUTE format('SELECT string_agg(t::text, '' '' ORDER BY t::text) FROM %I.%I t', path, name) INTO line;
		result := result || name || ': ' || coalesce(line, '') || E'\n';
	END LOOP;
	RETURN result;
END $$;
CREATE FUNCTION alike(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	sharded text := fks.outcome('fks', statement);
	plain text := fks.outcome('fks_plain', statement);
	at text := CASE WHEN fks.contents('fks') <> fks.contents('fks_plain') THEN ' CONTENTS DIFFER' ELSE '' END;
BEGIN
	RETURN CASE WHEN sharded = plain THEN sharded ELSE sharded || E'\nplain: ' || plain END || at;
END $$;
CREATE FUNCTION keys_on_shards(name text) RETURNS TABLE (tbl text, con text, def text, shards bigint) LANGUAGE sql AS $$
	SELECT q.*, count(*) FROM shardlet.query('fks', $q$SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint
		WHERE connamespace = 'fks'::regnamespace AND contype IN ('f', 'u', 'c', 'x')$q$, per_shard => true) AS q(tbl text, con text, def text)
		WHERE q.tbl = name OR q.tbl = 'fks.' || name GROUP BY 1, 2, 3 ORDER BY 1, 2 $$;

-- A table of the router refers to a shell table: made before it is distributed, and after.
SELECT alike($$CREATE TABLE t (id int PRIMARY KEY, u int, v text, UNIQUE (id, u))$$);
SELECT alike($$INSERT INTO t SELECT i, i * 10, 'v' FROM generate_series(1, 20) i$$);
SELECT alike($$CREATE TABLE before (a int PRIMARY KEY, id int REFERENCES t)$$);
SELECT alike($$INSERT INTO before VALUES (1, 1), (2, 2), (3, NULL)$$);
SELECT shardlet.distribute('t', 'fks', 'id');
CREATE TABLE fks.after (a int PRIMARY KEY, id bigint REFERENCES t ON UPDATE RESTRICT ON DELETE RESTRICT);
CREATE TABLE fks_plain.after (a int PRIMARY KEY, id bigint REFERENCES fks_plain.t ON UPDATE RESTRICT ON DELETE RESTRICT);
CREATE TABLE fks.two (a int PRIMARY KEY, id int, u int);
CREATE TABLE fks_plain.two (a int PRIMARY KEY, id int, u int);
-- Existing rows are checked.
SELECT alike($$INSERT INTO two VALUES (1, 5, 50), (2, 6, 61)$$);
SELECT alike($$ALTER TABLE two ADD CONSTRAINT two_key FOREIGN KEY (id, u) REFERENCES t (id, u) MATCH FULL$$);
SELECT alike($$DELETE FROM two WHERE a = 2$$);
SET client_min_messages = warning;
SELECT alike($$ALTER TABLE two ADD CONSTRAINT two_key FOREIGN KEY (id, u) REFERENCES t (id, u) MATCH FULL DEFERRABLE$$);
RESET client_min_messages;
\d t
\d two

-- The referring side.
SELECT alike($$INSERT INTO before VALUES (4, 4)$$);
SELECT alike($$INSERT INTO before VALUES (5, 99)$$);
SELECT alike($$UPDATE before SET id = 99 WHERE a = 1$$);
SELECT alike($$INSERT INTO after VALUES (1, 7), (2, NULL)$$);
SELECT alike($$INSERT INTO after VALUES (3, 5000000000)$$);
SELECT alike($$INSERT INTO two VALUES (3, 5, NULL)$$);
SELECT alike($$INSERT INTO two VALUES (3, NULL, NULL)$$);
SELECT alike($$INSERT INTO two SELECT i, i, i * 10 FROM generate_series(11, 14) i$$);
-- A check that is deferred.
BEGIN;
SET CONSTRAINTS fks.two_key DEFERRED;
INSERT INTO two VALUES (9, 99, 990);
INSERT INTO t VALUES (99, 990);
SET CONSTRAINTS fks.two_key IMMEDIATE;
INSERT INTO two VALUES (10, 100, 1000);
ROLLBACK;
-- What the transaction itself has written counts.
BEGIN;
INSERT INTO t VALUES (30);
INSERT INTO before VALUES (30, 30);
DELETE FROM before WHERE a = 30;
DELETE FROM t WHERE id = 30;
COMMIT;

-- The referenced side: what does not touch the keys is pushed down as ever.
SELECT public.road('DELETE FROM t WHERE id = 1'), public.road('UPDATE t SET id = 1 WHERE id = 1'), public.road('UPDATE t SET u = 1');
SELECT public.road($$UPDATE t SET v = 'x' WHERE id = 1$$), public.road($$UPDATE t SET v = 'x'$$), public.road('INSERT INTO t VALUES (1)'),
	public.road($$INSERT INTO t VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 'x'$$);
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM t WHERE id = 1;
SELECT alike($$DELETE FROM t WHERE id = 1$$);
-- The message of RESTRICT depends on the version.
SELECT alike($$DELETE FROM t WHERE id = 7$$) ~ '^23(503|001) [^\n]*$' AS is_restricted;
SELECT alike($$DELETE FROM t WHERE id = 5$$);
SELECT alike($$DELETE FROM t WHERE id IN (8, 9)$$);
SELECT alike($$UPDATE t SET id = 100 WHERE id = 2$$);
SELECT alike($$UPDATE t SET id = 100 WHERE id = 7$$) ~ '^23(503|001) [^\n]*$' AS is_restricted;
SELECT alike($$UPDATE t SET id = 100 WHERE id = 10$$);
SELECT alike($$UPDATE t SET u = 0 WHERE id = 5$$);
SELECT alike($$UPDATE t SET u = 0 WHERE id = 2$$);
SELECT alike($$UPDATE t SET u = u, v = 'same' WHERE id = 5$$);
SELECT alike($$UPDATE t SET u = u + 1 WHERE id NOT IN (5, 11, 12, 13, 14)$$);
SELECT alike($$DELETE FROM t USING before WHERE t.id = before.id AND before.a = 1$$);
SELECT alike($$DELETE FROM t WHERE NOT EXISTS (SELECT FROM before WHERE before.id = t.id) AND id > 16$$);
SELECT alike($$WITH d AS (DELETE FROM t WHERE id = 1 RETURNING *) SELECT count(*) FROM d$$);
SELECT alike($$WITH d AS (DELETE FROM t WHERE id = 1) SELECT 1$$);
-- Both in one statement.
SELECT alike($$WITH d AS (DELETE FROM before WHERE id = 1) DELETE FROM t WHERE id = 1$$);
SELECT alike($$WITH d AS (DELETE FROM t WHERE id = 2 RETURNING id) DELETE FROM before USING d WHERE before.id = d.id$$);
SELECT alike($$UPDATE t SET v = 'returned' WHERE id = 4 RETURNING *$$);
-- The key exists again at the end of the statement: that is enough for NO ACTION.
BEGIN;
WITH d AS (DELETE FROM t WHERE id = 4 RETURNING id), i AS (INSERT INTO t SELECT id, 40 FROM d RETURNING id) SELECT * FROM i;
ROLLBACK;
-- Upserts.
SELECT alike($$INSERT INTO t VALUES (4, 1) ON CONFLICT (id) DO UPDATE SET v = 'upserted'$$);
\set VERBOSITY default
INSERT INTO t VALUES (4, 1) ON CONFLICT (id) DO UPDATE SET u = excluded.u;
INSERT INTO t VALUES (4, 1), (5, 1) ON CONFLICT (id) DO UPDATE SET u = excluded.u;

-- Views, functions, savepoints, prepared statements.
CREATE VIEW few AS SELECT id, v FROM t WHERE id < 15;
DELETE FROM few WHERE id = 4;
PREPARE del AS DELETE FROM t WHERE id = $1;
EXECUTE del(4);
BEGIN;
SAVEPOINT a;
EXECUTE del(4);
ROLLBACK TO a;
EXECUTE del(15);
COMMIT;
DELETE FROM fks_plain.t WHERE id = 15;
DO $$
BEGIN
	DELETE FROM fks.t WHERE id = 4;
EXCEPTION WHEN foreign_key_violation THEN
	RAISE NOTICE '%', SQLERRM;
END $$;
-- Triggers and foreign keys that are off.
BEGIN;
SET LOCAL session_replication_role = replica;
EXECUTE del(4);
ROLLBACK;
-- A prepared statement follows the foreign key.
ALTER TABLE before DROP CONSTRAINT before_id_fkey;
EXPLAIN (COSTS OFF) EXECUTE del(4);
BEGIN;
EXECUTE del(4);
ROLLBACK;
ALTER TABLE before ADD FOREIGN KEY (id) REFERENCES t NOT VALID;
EXECUTE del(4);
ALTER TABLE before VALIDATE CONSTRAINT before_id_fkey;
BEGIN ISOLATION LEVEL REPEATABLE READ;
EXECUTE del(4);
ROLLBACK;
SELECT alike('SELECT 1');

-- TRUNCATE, DROP, ALTER.
TRUNCATE t;
BEGIN;
TRUNCATE t CASCADE;
SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM before) AS left;
ROLLBACK;
DROP TABLE t;
ALTER TABLE t DROP COLUMN u;
ALTER TABLE t ALTER COLUMN u TYPE bigint;
SELECT alike($$DELETE FROM t WHERE id = 5$$);

-- Deferred: the referring side at the end of the transaction, the other side at the end of each statement.
CREATE TABLE late (id int REFERENCES t DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO late VALUES (4711);
INSERT INTO t (id) VALUES (4711);
SET CONSTRAINTS ALL IMMEDIATE;
COMMIT;
BEGIN;
INSERT INTO late VALUES (4712);
SET CONSTRAINTS late_id_fkey IMMEDIATE;
ROLLBACK;
BEGIN;
INSERT INTO late VALUES (4712);
COMMIT;
DELETE FROM t WHERE id = 4711;
BEGIN;
DELETE FROM late;
DELETE FROM t WHERE id = 4711;
COMMIT;
SELECT count(*) FROM late;
ALTER TABLE two ALTER CONSTRAINT two_key DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE two ALTER CONSTRAINT two_key DEFERRABLE INITIALLY IMMEDIATE;
DROP TABLE late;

-- What the router cannot check.
CREATE TABLE bad (id int REFERENCES t ON DELETE CASCADE);
CREATE TABLE bad (id int REFERENCES t ON UPDATE SET NULL);
CREATE TABLE parent (id int PRIMARY KEY);
CREATE TABLE child (id int PRIMARY KEY REFERENCES parent ON DELETE CASCADE, n int);
SELECT shardlet.distribute_tables('{parent, child}', 'fks', '{id}');
CREATE TABLE bad (id int REFERENCES child);
ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES parent ON DELETE CASCADE;
ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES parent ON UPDATE CASCADE;
CREATE TABLE acted (id int PRIMARY KEY);
CREATE TABLE bad (id int PRIMARY KEY REFERENCES acted ON DELETE SET NULL);
SELECT shardlet.distribute('acted', 'fks', 'id');
SELECT shardlet.distribute('acted', 'fks', 'id', drop_foreign_keys => true);
DROP TABLE bad, acted;
-- A shell table cannot refer to a table of the router.
ALTER TABLE child ADD FOREIGN KEY (n) REFERENCES before;
ALTER TABLE child ADD COLUMN b int REFERENCES before;
CREATE TABLE refers (id int PRIMARY KEY, b int REFERENCES before);
SELECT shardlet.distribute('refers', 'fks', 'id');
SELECT shardlet.distribute('refers', 'fks', 'id', drop_foreign_keys => true);
SELECT shardlet.undistribute('refers');
DROP TABLE refers;

-- A partitioned shell table.
SELECT alike($$CREATE TABLE p (id int, k int, PRIMARY KEY (id, k)) PARTITION BY LIST (k)$$);
SELECT alike($$CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)$$);
SELECT alike($$CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)$$);
SELECT alike($$INSERT INTO p SELECT i, i % 2 + 1 FROM generate_series(1, 10) i$$);
SELECT alike($$CREATE TABLE l (a int, id int, k int, FOREIGN KEY (id, k) REFERENCES p) PARTITION BY LIST (a)$$);
SELECT alike($$CREATE TABLE l1 PARTITION OF l FOR VALUES IN (1)$$);
SELECT alike($$INSERT INTO l VALUES (1, 1, 2), (1, 2, 1)$$);
SELECT shardlet.distribute('p', 'fks', 'id');
SELECT alike($$INSERT INTO l VALUES (1, 3, 2)$$);
SELECT alike($$INSERT INTO l VALUES (1, 3, 1)$$);
SELECT alike($$DELETE FROM p1 WHERE id = 2$$) ~ '^23503 [^\n]*$' AS is_referenced;
SELECT alike($$DELETE FROM p2 WHERE id = 5$$);
SELECT alike($$UPDATE p SET k = 1 WHERE id = 7$$);
SELECT alike($$UPDATE p SET k = 1 WHERE id = 1$$);
-- The error names the table of the statement, not its partition.
SELECT substring(alike($$DELETE FROM p WHERE id = 1$$) FROM '^[^\n]*');
SELECT alike($$DELETE FROM p WHERE id > 5$$);
TRUNCATE p2;
ALTER TABLE p DETACH PARTITION p2;

-- Foreign keys among shell tables: names are the router's.
CREATE TABLE orders (customer int, id int, n int, x int, y int, PRIMARY KEY (customer, id));
CREATE TABLE items (customer int NOT NULL, id int, n int, x int, y int);
SELECT shardlet.distribute_tables('{orders, items}', 'fks', '{customer}');
INSERT INTO orders SELECT i, i FROM generate_series(1, 4) i;
INSERT INTO items SELECT i, i, i, i, i FROM generate_series(1, 4) i;
CREATE SEQUENCE items_customer_x_key;
ALTER TABLE items ADD FOREIGN KEY (customer, id) REFERENCES orders;
ALTER TABLE items ADD FOREIGN KEY (customer, id) REFERENCES orders ON DELETE CASCADE NOT VALID, ADD UNIQUE (customer, x),
	ADD CHECK (n > 0), ADD CONSTRAINT named CHECK (x > 0), ADD CHECK (n < 100 AND x < 100), ADD EXCLUDE (customer WITH =, y WITH =);
SELECT * FROM keys_on_shards('items');
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'items'::regclass AND contype IN ('f', 'u', 'c', 'x') ORDER BY 1;
ALTER TABLE items VALIDATE CONSTRAINT items_customer_id_fkey1;
ALTER TABLE items ALTER CONSTRAINT items_customer_id_fkey DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE items DROP CONSTRAINT items_customer_x_key1, DROP CONSTRAINT items_check, DROP CONSTRAINT items_customer_y_excl;
SELECT * FROM keys_on_shards('items');
SELECT conname, pg_get_constraintdef(oid), convalidated FROM pg_constraint WHERE conrelid = 'items'::regclass AND contype IN ('f', 'u', 'c', 'x') ORDER BY 1;
ALTER TABLE items DROP CONSTRAINT items_customer_id_fkey;
\set VERBOSITY terse
INSERT INTO items VALUES (1, 9, 1, 1, 1);
DELETE FROM orders WHERE customer = 1;
SELECT count(*) FROM items;
-- Refused: the rows may be on different shards.
ALTER TABLE items ADD FOREIGN KEY (n, id) REFERENCES orders;
CREATE TABLE elsewhere (id int PRIMARY KEY);
SELECT shardlet.distribute('elsewhere', 'fks_other', 'id');
ALTER TABLE items ADD FOREIGN KEY (customer) REFERENCES elsewhere;
\set VERBOSITY default
-- A table of the router that refers to a shell table is distributed later.
CREATE TABLE later (customer int, id int, FOREIGN KEY (customer, id) REFERENCES orders);
ALTER TABLE later ALTER customer SET NOT NULL, ALTER id SET NOT NULL;
INSERT INTO later VALUES (2, 2);
SELECT public.road('DELETE FROM orders WHERE customer = 2');
SELECT shardlet.distribute('later', 'fks', 'id');
SELECT shardlet.distribute('later', 'fks', 'customer');
SELECT public.road('DELETE FROM orders WHERE customer = 2');
SELECT * FROM keys_on_shards('later');
DELETE FROM orders WHERE customer = 2;

-- Back again: what refers to a table that stays distributed is checked by the router, what a distributed table
-- refers to must be distributed.
PREPARE del_order AS DELETE FROM orders WHERE customer = $1;
EXECUTE del_order(3);
SELECT shardlet.undistribute('later');
EXECUTE del_order(2);
INSERT INTO later VALUES (3, 3);
SELECT shardlet.distribute('later', 'fks', 'customer');
SELECT shardlet.undistribute('items');
SELECT shardlet.undistribute('orders');
SELECT conrelid::regclass, conname FROM pg_constraint WHERE conrelid IN ('later'::regclass, 'items'::regclass) AND contype = 'f';
SELECT * FROM keys_on_shards('later');
SELECT shardlet.undistribute('t');
SELECT alike($$DELETE FROM t WHERE id = 5$$);
SELECT alike($$INSERT INTO before VALUES (5, 99)$$);
DROP TABLE later, orders, items;
DROP SEQUENCE items_customer_x_key;

-- Reference tables, and the actions of foreign keys to them.
SELECT alike($$CREATE TABLE ref (r int PRIMARY KEY)$$);
SELECT shardlet.make_reference('ref');
SELECT alike($$INSERT INTO ref SELECT generate_series(1, 9)$$);
SELECT alike($$CREATE TABLE casc (id int PRIMARY KEY, r int REFERENCES ref ON DELETE CASCADE ON UPDATE CASCADE)$$);
SELECT alike($$CREATE TABLE nulls (id int PRIMARY KEY, r int REFERENCES ref ON DELETE SET NULL ON UPDATE SET NULL)$$);
SELECT alike($$CREATE TABLE defaults (id int PRIMARY KEY, r int DEFAULT 9 REFERENCES ref ON DELETE SET DEFAULT ON UPDATE SET DEFAULT)$$);
SELECT alike($$CREATE TABLE strict (id int PRIMARY KEY, r int REFERENCES ref)$$);
SELECT alike(format('INSERT INTO %s SELECT i, i %% 5 + 1 FROM generate_series(1, 20) i', name)) FROM unnest('{casc, nulls, defaults}'::text[]) name;
SELECT alike($$INSERT INTO strict VALUES (1, 7)$$);
SELECT shardlet.distribute_tables('{casc, nulls, defaults, strict}', 'fks', '{id}');
SELECT alike($$DELETE FROM ref WHERE r = 7$$);
SELECT alike($$UPDATE ref SET r = 70 WHERE r = 7$$);
SELECT alike($$DELETE FROM ref WHERE r = 1$$);
SELECT alike($$UPDATE ref SET r = 20 WHERE r = 2$$);
SELECT alike($$UPDATE ref SET r = r * 10 WHERE r IN (3, 4)$$);
SELECT alike($$DELETE FROM ref WHERE r BETWEEN 30 AND 40$$);
SELECT alike($$INSERT INTO casc VALUES (50, 500)$$);
SELECT alike($$ALTER TABLE strict ADD s int REFERENCES ref$$);
SELECT alike($$UPDATE strict SET s = 8$$);
SELECT alike($$DELETE FROM ref WHERE r = 8$$);
TRUNCATE ref;
SELECT alike($$TRUNCATE ref, casc, nulls, strict, defaults$$);
SELECT alike($$INSERT INTO ref VALUES (1)$$), alike($$INSERT INTO casc VALUES (1, 1)$$);
SET client_min_messages = warning;
SELECT alike($$TRUNCATE ref CASCADE$$);
RESET client_min_messages;
SELECT sum(n) FROM shardlet.query('fks', 'SELECT count(*) FROM fks.ref', per_shard => true) AS q(n bigint);
SELECT shardlet.undistribute('ref');
SELECT conrelid::regclass FROM pg_constraint WHERE confrelid = 'ref'::regclass;
-- A reference table may refer to a shell table: the router checks it.
CREATE TABLE to_shell (a int PRIMARY KEY, id int REFERENCES strict);
SELECT shardlet.make_reference('to_shell');
INSERT INTO strict VALUES (1), (2);
INSERT INTO to_shell VALUES (1, 1);
INSERT INTO to_shell VALUES (3, 3);
DELETE FROM strict WHERE id = 1;
DELETE FROM strict WHERE id = 2;

-- A user whose connections are others than those of the owner.
CREATE ROLE fks_writer SUPERUSER LOGIN;
SET ROLE fks_writer;
DELETE FROM strict WHERE id = 1;
BEGIN;
INSERT INTO strict VALUES (4);
INSERT INTO to_shell VALUES (4, 4);
DELETE FROM strict WHERE id = 4;
ROLLBACK;
RESET ROLE;
DROP ROLE fks_writer;

SET client_min_messages = warning;
DROP SCHEMA fks, fks_plain CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA fks CASCADE');
SELECT shardlet.drop_map('fks'), shardlet.drop_map('fks_other');

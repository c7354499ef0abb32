-- Indexes and statistics of sharded tables: the router and the shards have the same.
SELECT shardlet.create_map('di', shards => '{s1,s2,s3}');
CREATE SCHEMA ddl_index;
SET search_path = ddl_index;
SELECT count(*) FROM shardlet.execute('di', 'CREATE SCHEMA ddl_index');
CREATE TABLE orders (customer_id bigint NOT NULL, id bigint NOT NULL, note text, PRIMARY KEY (customer_id, id));
SELECT shardlet.distribute('orders', 'di', 'customer_id');
CREATE TABLE here (a int);
CREATE INDEX here_a ON here (a);

CREATE FUNCTION there(sql text) RETURNS TABLE (answer text, shards bigint) LANGUAGE sql AS $$
	SELECT a, count(*) FROM shardlet.query('di', sql, per_shard => true) AS q(a text) GROUP BY a ORDER BY a $$;
CREATE FUNCTION indexes() RETURNS TABLE (answer text, shards bigint) LANGUAGE sql AS $$
	SELECT * FROM there($q$SELECT string_agg(concat_ws(' ', indexrelid::regclass, indisvalid, obj_description(indexrelid, 'pg_class'), reloptions), ', ' ORDER BY relname)
		FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'ddl_index.orders'::regclass$q$) $$;

CREATE INDEX o_note ON orders (note);
CREATE INDEX ON orders USING hash (note) WHERE id > 5;
CREATE UNIQUE INDEX o_unique ON ddl_index.orders (customer_id, lower(note));
CREATE INDEX IF NOT EXISTS o_note ON orders (note);
SELECT * FROM indexes();
COMMENT ON INDEX o_note IS 'it''s a "note" \';
ALTER INDEX o_note SET (fillfactor = 70);
ALTER INDEX ddl_index.o_note RENAME TO "O note";
SELECT * FROM indexes();
REINDEX INDEX "O note";
REINDEX TABLE orders;
CLUSTER orders USING orders_pkey;
ALTER TABLE orders CLUSTER ON "O note", SET WITHOUT CLUSTER;
ALTER TABLE orders ADD CONSTRAINT made_of UNIQUE USING INDEX o_made;
CREATE UNIQUE INDEX o_made ON orders (id, customer_id);
ALTER TABLE orders ADD CONSTRAINT made_of UNIQUE USING INDEX o_made;
DROP INDEX "O note", orders_note_idx, o_unique, here_a;
SELECT * FROM indexes();
SELECT to_regclass('here_a');

-- Concurrently: on each shard for itself, so not in a transaction.
CREATE INDEX CONCURRENTLY o_con ON orders (note);
REINDEX INDEX CONCURRENTLY o_con;
REINDEX TABLE CONCURRENTLY orders;
SELECT * FROM indexes();
BEGIN; CREATE INDEX CONCURRENTLY o_con2 ON orders (note); ROLLBACK;
BEGIN; DROP INDEX CONCURRENTLY o_con; ROLLBACK;
DROP INDEX CONCURRENTLY o_con;
SELECT min(k) AS k FROM generate_series(1, 100) k WHERE shardlet.route('di', k) = 's2' \gset
INSERT INTO orders VALUES (:k, 1, 'a'), (:k, 2, 'a');
\set VERBOSITY terse
CREATE UNIQUE INDEX CONCURRENTLY o_con ON orders (customer_id, note);
\set VERBOSITY default
SELECT * FROM indexes();
DROP INDEX o_con;

-- In transactions.
BEGIN;
CREATE INDEX o_txn ON orders (note);
ALTER INDEX o_txn RENAME TO o_txn2;
SAVEPOINT a;
DROP INDEX o_txn2;
ROLLBACK TO a;
COMMENT ON INDEX o_txn2 IS 'mine';
SELECT * FROM indexes();
ROLLBACK;
SELECT * FROM indexes();

-- Wrong ones.
CREATE UNIQUE INDEX o_bad ON orders (note);
\set VERBOSITY sqlstate
CREATE UNIQUE INDEX o_bad ON orders ((customer_id + 1));
CREATE INDEX o_bad ON orders (zz);
CREATE INDEX made_of ON orders (note);
DROP INDEX o_bad;
DROP INDEX IF EXISTS o_bad;
DROP INDEX made_of;
ALTER INDEX o_bad RENAME TO x;
REINDEX INDEX o_bad;
CLUSTER orders USING o_bad;
\set VERBOSITY default
-- An index of a table of the shards that is not ours is not found.
SELECT count(*) FROM shardlet.execute('di', 'CREATE TABLE theirs (a int PRIMARY KEY)');
DROP INDEX theirs_pkey;
SELECT * FROM indexes();

-- Statistics.
CREATE STATISTICS st (ndistinct) ON id, note FROM orders;
ALTER STATISTICS st SET STATISTICS 50;
COMMENT ON STATISTICS st IS 'both';
ALTER STATISTICS st RENAME TO st2;
CREATE STATISTICS IF NOT EXISTS st2 ON id, note FROM orders;
SELECT * FROM there($$SELECT string_agg(concat_ws(' ', stxname, stxstattarget, stxkind, obj_description(oid, 'pg_statistic_ext')), ', ') FROM pg_statistic_ext$$);
DROP STATISTICS st2;
SELECT * FROM there('SELECT count(*)::text FROM pg_statistic_ext');
SELECT count(*) FROM pg_statistic_ext;

-- Only the owner may, and the shards hear nothing of the others.
CREATE ROLE ddl_index_user;
GRANT USAGE ON SCHEMA ddl_index TO ddl_index_user;
SET ROLE ddl_index_user;
\set VERBOSITY sqlstate
CREATE INDEX o_user ON orders (note);
CREATE STATISTICS st ON id, note FROM orders;
REINDEX TABLE orders;
CLUSTER orders USING orders_pkey;
\set VERBOSITY default
RESET ROLE;
BEGIN READ ONLY; CREATE INDEX o_user ON orders (note); ROLLBACK;

DROP TABLE orders;
REVOKE USAGE ON SCHEMA ddl_index FROM ddl_index_user;
DROP ROLE ddl_index_user;
SET client_min_messages = warning;
DROP SCHEMA ddl_index CASCADE;
SELECT count(*) FROM shardlet.execute('di', 'DROP SCHEMA ddl_index CASCADE');
SELECT shardlet.drop_map('di');

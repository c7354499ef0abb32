-- The access method of shell tables: distributed tables that are ordinary tables of the router, without rows.
-- Whatever would read or write their heap is an error, and what does without rows is right.
CREATE SCHEMA am;
SET search_path = am, public;
-- Shell tables are made by hand.
CREATE FUNCTION open_shell(oid, is_open bool DEFAULT true) RETURNS void LANGUAGE c STRICT AS '$libdir/shardlet', 'shardlet_open_shell';
CREATE FUNCTION make_shell(tbl regclass, VARIADIC options text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL allow_system_table_mods = on;
	UPDATE pg_class SET relam = (SELECT oid FROM pg_am WHERE amname = 'shardlet') WHERE oid = tbl AND relkind = 'r';
	INSERT INTO pg_depend SELECT 'pg_class'::regclass, tbl, 0, 'pg_am'::regclass, oid, 0, 'n' FROM pg_am WHERE amname = 'shardlet';
	PERFORM connect_shell(tbl, VARIADIC options);
	SET LOCAL allow_system_table_mods = off;
END $$;
CREATE FUNCTION connect_shell(tbl regclass, VARIADIC options text[]) RETURNS void LANGUAGE plpgsql SET allow_system_table_mods = on AS $$
BEGIN
	INSERT INTO pg_foreign_table SELECT tbl, oid, options FROM pg_foreign_server WHERE srvname = 'shardlet_tables';
	INSERT INTO pg_depend SELECT 'pg_class'::regclass, tbl, 0, 'pg_foreign_server'::regclass, oid, 0, 'n' FROM pg_foreign_server WHERE srvname = 'shardlet_tables';
END $$;
CREATE FUNCTION disconnect_shell(tbl regclass) RETURNS void LANGUAGE sql SET allow_system_table_mods = on AS $$
	DELETE FROM pg_foreign_table WHERE ftrelid = tbl;
	DELETE FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = tbl AND refclassid = 'pg_foreign_server'::regclass;
$$;
-- What a statement answers: its rows, or the error.
CREATE FUNCTION tries(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	count bigint;
BEGIN
	EXECUTE statement;
	GET DIAGNOSTICS count = ROW_COUNT;
	RETURN 'ok ' || count;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
CREATE FUNCTION statistics(tbl regclass) RETURNS text LANGUAGE sql AS $$
	SELECT format('rows %s, pages %s, columns %s', reltuples, CASE WHEN relpages > 0 THEN '> 0' ELSE '0' END,
		(SELECT count(*) FROM pg_statistic WHERE starelid = tbl)) FROM pg_class WHERE oid = tbl
$$;
-- A table with 3,000 rows on shards.
SELECT shardlet.create_map('am', shardlets => 8);
CREATE TABLE t (k bigint PRIMARY KEY, v int, w text);
SELECT shardlet.distribute('t', 'am', 'k');
INSERT INTO t SELECT i, i % 10, 'w' || i FROM generate_series(1, 3000) i;
-- The same table as a shell.
SET shardlet.carry_ddl = off;
DROP TABLE t;
-- The rest of the extension takes shell tables for plain ones here, as if a hook had missed them.
SET shardlet.fault = 'shell_as_plain:skip';
CREATE TABLE t (k bigint PRIMARY KEY, v int, w text);
CREATE INDEX t_v ON t (v);
RESET shardlet.carry_ddl;
-- A plan and functions of the plain table.
PREPARE point AS SELECT * FROM t WHERE k = 1;
EXECUTE point;
CREATE FUNCTION inlined(x bigint) RETURNS SETOF t LANGUAGE sql STABLE AS 'SELECT * FROM am.t WHERE k = x';
CREATE FUNCTION called() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM am.t); END';
SELECT called();
SELECT make_shell('t', 'map=am', 'key=k');
-- The error in full.
SELECT * FROM t;
INSERT INTO t VALUES (1);

-- Every kind of access.  The planner refuses what reads; without it the access method does.
EXECUTE point;
SELECT tries(s) FROM unnest(ARRAY['SELECT count(*) FROM t', 'SELECT * FROM t WHERE k = 1', 'SELECT k FROM t WHERE k = 1', 'SELECT * FROM t WHERE v = 1',
	$$SELECT * FROM t WHERE ctid = '(0,1)'$$, $$SELECT * FROM t WHERE ctid < '(1,1)'$$, 'SELECT * FROM t TABLESAMPLE bernoulli (50)', 'SELECT * FROM t FOR UPDATE', 'SELECT * FROM ONLY t',
	'SELECT * FROM inlined(1)', 'SELECT called()', $$SELECT table_to_xml('t', true, true, '')$$, $$SELECT currtid2('am.t', '(0,1)')$$, 'CREATE TABLE copied AS SELECT * FROM t',
	'CREATE MATERIALIZED VIEW mv AS SELECT * FROM t', 'EXPLAIN SELECT * FROM t',
	'INSERT INTO t VALUES (1)', 'INSERT INTO t DEFAULT VALUES', 'INSERT INTO t SELECT i FROM generate_series(1, 5000) i', 'INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING',
	'INSERT INTO t VALUES (1) ON CONFLICT (k) DO UPDATE SET v = 1', 'UPDATE t SET v = 1', 'UPDATE t SET v = 1 WHERE k = 1', 'DELETE FROM t', 'DELETE FROM t WHERE k = 1',
	'MERGE INTO t USING (VALUES (1)) s(k) ON t.k = s.k WHEN NOT MATCHED THEN INSERT VALUES (s.k)', 'WITH w AS (DELETE FROM t RETURNING *) SELECT * FROM w', 'TRUNCATE t', 'TRUNCATE ONLY t']) s;
-- Plans that were made when the table was open, and are executed when it is not: the access method itself.
CREATE FUNCTION planned(statement text, settings text[] DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	setting text;
	result text;
BEGIN
	FOREACH setting IN ARRAY settings LOOP PERFORM set_config(setting, 'off', true); END LOOP;
	PERFORM set_config('plan_cache_mode', 'force_generic_plan', true);
	BEGIN
		EXECUTE 'PREPARE planned AS ' || statement;
		PERFORM open_shell('t'::regclass);
		EXECUTE 'EXPLAIN EXECUTE planned' INTO result;
		RAISE EXCEPTION 'end of the opening';
	EXCEPTION WHEN raise_exception THEN
		result := regexp_replace(result, ' +\(.*', '');
	END;
	result := result || ': ' || tries('EXECUTE planned');
	DEALLOCATE planned;
	FOREACH setting IN ARRAY settings LOOP PERFORM set_config(setting, 'on', true); END LOOP;
	RETURN result;
END $$;
SELECT planned('SELECT * FROM t', '{enable_indexscan,enable_bitmapscan}');
SELECT planned('SELECT * FROM t WHERE v = 1', '{enable_seqscan,enable_bitmapscan}');
SELECT planned('SELECT k FROM t WHERE k = 1', '{enable_seqscan,enable_bitmapscan}');
SELECT planned('SELECT * FROM t WHERE v = 1', '{enable_seqscan,enable_indexscan,enable_indexonlyscan}');
SELECT planned($$SELECT * FROM t WHERE ctid = '(0,1)'$$);
SELECT planned($$SELECT * FROM t WHERE ctid < '(1,1)'$$, '{enable_seqscan}');
SELECT planned('SELECT * FROM t TABLESAMPLE system (50)');
SELECT planned('SELECT * FROM t FOR UPDATE', '{enable_indexscan,enable_bitmapscan}');
ALTER TABLE t SET (parallel_workers = 2);
BEGIN;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
SELECT planned('SELECT * FROM t WHERE w > $$a$$', '{enable_indexscan,enable_bitmapscan}');
SET LOCAL parallel_leader_participation = off;
SELECT planned('SELECT * FROM t WHERE w > $$a$$', '{enable_indexscan,enable_bitmapscan}');
ROLLBACK;
-- COPY
\set VERBOSITY sqlstate
COPY t TO STDOUT;
COPY (SELECT * FROM t) TO STDOUT;
COPY t FROM STDIN;
1	1	a
\.
COPY t (k) FROM STDIN (FORMAT csv);
1
\.
COPY t FROM STDIN;
\.
\set VERBOSITY default

-- What does without rows.
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
CREATE INDEX t_w ON t (w);
CREATE INDEX t_hash ON t USING hash (w);
CREATE INDEX t_brin ON t USING brin (k);
CREATE INDEX t_gin ON t USING gin (to_tsvector('simple', w));
CREATE INDEX CONCURRENTLY t_w2 ON t (w, v);
CREATE UNIQUE INDEX t_expression ON t ((k + 1)) WHERE v > 0;
REINDEX TABLE t;
REINDEX TABLE CONCURRENTLY t;
REINDEX INDEX t_w;
VACUUM t;
VACUUM (FREEZE) t;
VACUUM FULL t;
CLUSTER t USING t_pkey;
CLUSTER t USING t_w;
SELECT brin_summarize_new_values('t_brin');
SELECT reltuples FROM pg_class WHERE oid = 't'::regclass;
SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = 't'::regclass;
-- The TOAST table is an ordinary one.
SELECT amname FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid JOIN pg_am a ON a.oid = t.relam WHERE c.oid = 't'::regclass;
SELECT pg_relation_size('t'), age(relfrozenxid) < 100 AS is_frozen FROM pg_class WHERE oid = 't'::regclass;
SELECT tries('SELECT count(*) FROM t');

-- ANALYZE samples the rows on the shards.
ANALYZE t;
SELECT statistics('t');
SELECT attname, n_distinct, null_frac FROM pg_stats WHERE schemaname = 'am' AND tablename = 't' ORDER BY attname;
-- What else writes pg_class leaves it alone.
CREATE INDEX t_v2 ON t (v);
CREATE INDEX CONCURRENTLY t_v3 ON t (v);
REINDEX TABLE t;
SELECT statistics('t');
VACUUM t;
SELECT statistics('t');
VACUUM (FREEZE, ANALYZE) t;
SELECT statistics('t');
SELECT pg_relation_size('t_hash') < 100000 AS hash_is_small;
VACUUM FULL t;
CLUSTER t;
SELECT statistics('t');
ANALYZE t (v);
SELECT statistics('t');
-- A larger sample than the rows, and a smaller one.
ALTER TABLE t ALTER w SET STATISTICS 1000;
ANALYZE t;
SELECT statistics('t');
ALTER TABLE t ALTER w SET STATISTICS -1;
SELECT count(*) > 0 FROM shardlet.execute('am', 'ANALYZE am.t');
BEGIN;
SET LOCAL default_statistics_target = 1;
ANALYZE t;
COMMIT;
SELECT statistics('t');
-- In a transaction that aborts; with extended statistics.
BEGIN;
CREATE STATISTICS t_s ON v, w FROM t;
ANALYZE t;
SELECT count(*) FROM pg_statistic_ext_data JOIN pg_statistic_ext ON oid = stxoid WHERE stxrelid = 't'::regclass;
ROLLBACK;
SET track_activities = off;
ANALYZE t;
RESET track_activities;
SELECT statistics('t');
-- A shard that does not answer: the error, and the old statistics.
SELECT shardlet.alter_shard('s1', state => 'offline');
\set VERBOSITY sqlstate
ANALYZE t;
\set VERBOSITY default
SELECT shardlet.alter_shard('s1', state => 'online');
SELECT statistics('t');
-- Parallel index builds.
BEGIN;
SET LOCAL min_parallel_table_scan_size = 0;
SET LOCAL maintenance_work_mem = '128MB';
CREATE INDEX t_parallel ON t (w);
CREATE INDEX t_parallel_brin ON t USING brin (v);
COMMIT;
SELECT statistics('t');

-- ALTER TABLE: what reads rows is an error, and possible for commands of the extension.
CREATE FUNCTION alters(action text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before text := tries('ALTER TABLE t ' || action);
BEGIN
	IF before NOT LIKE 'ok%' THEN
		BEGIN
			PERFORM open_shell('t'::regclass);
			before := before || '; open: ' || tries('ALTER TABLE t ' || action);
			RAISE EXCEPTION '%', before;
		EXCEPTION WHEN raise_exception THEN
			before := SQLERRM;
		END;
	END IF;
	RETURN before;
END $$;
SELECT a, alters(a) FROM unnest(ARRAY['ADD c1 int', 'ADD c2 int DEFAULT 1', 'ADD c3 float8 DEFAULT random()', 'ADD c4 int GENERATED ALWAYS AS (v + 1) STORED', 'DROP c1', 'RENAME c2 TO c5',
	'ALTER v TYPE bigint', 'ALTER c5 TYPE text USING c5::text', 'ALTER w SET NOT NULL', 'ADD CHECK (v > 0)', 'ADD CONSTRAINT c CHECK (v > 1) NOT VALID', 'VALIDATE CONSTRAINT c', 'DROP CONSTRAINT c', 'ADD UNIQUE (w)', 'ADD EXCLUDE USING btree (w WITH =)',
	'SET UNLOGGED', 'SET (fillfactor = 50)', 'SET TABLESPACE pg_default', 'SET ACCESS METHOD heap', 'ALTER w SET STORAGE external', 'REPLICA IDENTITY FULL', 'SET WITHOUT CLUSTER', 'ENABLE ROW LEVEL SECURITY',
	'DISABLE ROW LEVEL SECURITY', 'ADD FOREIGN KEY (v) REFERENCES t', 'INHERIT no_table', 'RESET (parallel_workers)']) WITH ORDINALITY x(a, n) ORDER BY n;
SELECT statistics('t');
-- The opening ends with its subtransaction, with the transaction, and is of one table.
CREATE TABLE t2 (k bigint PRIMARY KEY, v int);
SELECT make_shell('t2', 'map=am', 'key=k');
BEGIN;
SAVEPOINT a;
SELECT open_shell('t'::regclass);
SELECT count(*) FROM t;
SELECT tries('SELECT count(*) FROM t2');
RELEASE a;
SELECT tries('SELECT count(*) FROM t');
SAVEPOINT b;
SELECT open_shell('t2'::regclass);
SELECT tries('SELECT count(*) FROM t2');
ROLLBACK TO b;
SELECT tries('SELECT count(*) FROM t2'), tries('SELECT count(*) FROM t');
COMMIT;
SELECT tries('SELECT count(*) FROM t');
BEGIN;
SELECT open_shell('t'::regclass), open_shell('t'::regclass);
SELECT open_shell('t'::regclass, false);
SELECT tries('SELECT count(*) FROM t');
SELECT open_shell('t'::regclass, false);
SELECT tries('SELECT count(*) FROM t');
COMMIT;
BEGIN;
SELECT open_shell('t'::regclass);
SELECT 1/0;
ROLLBACK;
SELECT tries('SELECT count(*) FROM t');
BEGIN;
SELECT open_shell('t'::regclass);
TRUNCATE t;
ROLLBACK;
SELECT statistics('t');

-- The access method is for tables that the extension distributes.
SELECT tries(s) FROM unnest(ARRAY['CREATE TABLE u (k int) USING shardlet', 'CREATE TABLE u USING shardlet AS SELECT 1', 'CREATE MATERIALIZED VIEW u USING shardlet AS SELECT 1', 'CREATE TEMP TABLE u (k int) USING shardlet',
	'CREATE UNLOGGED TABLE u (k int) USING shardlet', 'CREATE TABLE pg_temp_123 (k int) USING shardlet', 'CREATE TABLE pg_temp_4294967295 (k int) USING shardlet']) s;
CREATE TABLE heap_table (k int);
INSERT INTO heap_table VALUES (1);
CREATE TABLE u (k int) USING shardlet;
ALTER TABLE heap_table SET ACCESS METHOD shardlet;
SET default_table_access_method = shardlet;
CREATE TABLE u (k int);
RESET default_table_access_method;
BEGIN;
SELECT open_shell(0);
CREATE TABLE u (k int) USING shardlet;
ROLLBACK;
BEGIN;
SELECT open_shell('heap_table'::regclass);
ALTER TABLE heap_table SET ACCESS METHOD shardlet;
SELECT * FROM heap_table;
ALTER TABLE heap_table SET ACCESS METHOD heap;
COMMIT;
SELECT * FROM heap_table;
-- LIKE does not copy it.
CREATE TABLE alike (LIKE t INCLUDING ALL);
SELECT count(*) FROM alike;
SET ROLE NONE;
SELECT has_function_privilege('public', 'shardlet.table_access_method_handler(internal)', 'EXECUTE');

-- As a partition or child of a plain table.
CREATE TABLE parent (k bigint NOT NULL, v int) PARTITION BY RANGE (k);
CREATE TABLE p1 PARTITION OF parent FOR VALUES FROM (0) TO (100);
INSERT INTO parent VALUES (1, 1);
SELECT tries('ALTER TABLE parent ATTACH PARTITION t2 FOR VALUES FROM (100) TO (200)');
BEGIN;
SELECT open_shell('t2'::regclass);
ALTER TABLE parent ATTACH PARTITION t2 FOR VALUES FROM (100) TO (200);
COMMIT;
SELECT tries(s) FROM unnest(ARRAY['SELECT count(*) FROM parent', 'SELECT * FROM parent WHERE k = 1', 'INSERT INTO parent VALUES (100, 1)', 'INSERT INTO parent VALUES (2, 2)', 'UPDATE parent SET k = 100 WHERE k = 1',
	'UPDATE parent SET v = 1', 'TRUNCATE parent', 'CREATE INDEX ON parent (v)']) s;
ALTER TABLE parent DETACH PARTITION t2;
-- Foreign keys.
SELECT tries(s) FROM unnest(ARRAY['CREATE TABLE r (k bigint REFERENCES t2)', 'INSERT INTO r VALUES (1)', 'ALTER TABLE heap_table ADD FOREIGN KEY (k) REFERENCES t2', 'DROP TABLE r']) s;
-- Publications.
SELECT tries('CREATE PUBLICATION p FOR TABLE t');
CREATE PUBLICATION p FOR TABLE heap_table;
ALTER PUBLICATION p ADD TABLE t;
DROP PUBLICATION p;
-- A partitioned table has no rows of its own: the planner refuses it.
CREATE TABLE empty_parent (k bigint, v int) PARTITION BY RANGE (k);
SELECT connect_shell('empty_parent', 'map=am', 'key=k');
SELECT tries('SELECT count(*) FROM empty_parent'), tries('UPDATE empty_parent SET v = 1');

-- DROP removes the row of pg_foreign_table, and ROLLBACK brings it back.
CREATE TABLE dropped AS SELECT 't2'::regclass::oid AS relid UNION SELECT 'empty_parent'::regclass;
BEGIN;
DROP TABLE t2, empty_parent;
ROLLBACK;
SELECT count(*) FROM pg_foreign_table JOIN dropped ON relid = ftrelid;
DROP TABLE t2, empty_parent;
SELECT count(*) FROM pg_foreign_table JOIN dropped ON relid = ftrelid;

-- A table that is not connected and has no rows.
SELECT disconnect_shell('t');
SELECT * FROM t;
SELECT tries(s) FROM unnest(ARRAY['SELECT count(*) FROM t', 'INSERT INTO t VALUES (1)', 'UPDATE t SET v = 1', 'DELETE FROM t', 'TRUNCATE t', 'ALTER TABLE t ALTER v TYPE bigint']) s;
\set VERBOSITY sqlstate
COPY t TO STDOUT;
COPY t (k) FROM STDIN;
1
\.
ANALYZE t;
\set VERBOSITY default
VACUUM t;
VACUUM FULL t;
REINDEX TABLE t;
SELECT statistics('t');
-- The session that restores it fills it: it is a plain table then.
BEGIN;
SET LOCAL check_function_bodies = off;
SELECT set_config('search_path', '', true);
SELECT am.tries(s) FROM unnest(ARRAY['SELECT count(*) FROM am.t', 'ALTER TABLE am.t ADD CONSTRAINT f FOREIGN KEY (k) REFERENCES am.t', 'INSERT INTO am.t (k, v) SELECT i, i FROM generate_series(1, 1000) i',
	'CREATE TABLE am.u (k int) USING shardlet', 'DROP TABLE am.u']) s;
COMMIT;
SELECT count(*), sum(v) FROM t;
SELECT tries(s) FROM unnest(ARRAY['INSERT INTO t (k, v) VALUES (0, 1)', 'UPDATE t SET v = 1 WHERE k = 5', 'DELETE FROM t WHERE k = 6', 'INSERT INTO t (k, v) VALUES (1, 77) ON CONFLICT (k) DO UPDATE SET v = excluded.v',
	'SELECT * FROM t WHERE k = 7 FOR UPDATE', 'MERGE INTO t USING (VALUES (2)) s(k) ON t.k = s.k WHEN MATCHED THEN DELETE', 'SELECT * FROM t TABLESAMPLE bernoulli (100)',
	$$SELECT * FROM t WHERE ctid = '(0,1)'$$, 'ALTER TABLE t ALTER v TYPE bigint', 'CREATE INDEX ON t (v)', 'CREATE INDEX ON t USING hash (w)']) s;
ANALYZE t;
SELECT statistics('t');
CREATE INDEX CONCURRENTLY t_v4 ON t (v);
REINDEX TABLE t;
CLUSTER t USING t_pkey;
VACUUM FULL t;
BEGIN;
SET LOCAL enable_seqscan = off;
SELECT k, v FROM t WHERE v IN (77, 500) ORDER BY k;
SET LOCAL enable_seqscan = on;
SET LOCAL parallel_setup_cost = 0;
SET LOCAL parallel_tuple_cost = 0;
SET LOCAL min_parallel_table_scan_size = 0;
ALTER TABLE t SET (parallel_workers = 2);
EXPLAIN (COSTS OFF) SELECT count(*) FROM t;
SELECT count(*) FROM t;
COMMIT;
-- It stays one when it is emptied.
DELETE FROM t;
VACUUM t;
SELECT count(*) FROM t;
TRUNCATE t;
SELECT count(*) FROM t;
ALTER TABLE t ALTER v TYPE int;
VACUUM FULL t;
SELECT count(*) FROM t;
INSERT INTO t (k) VALUES (1);
-- Connected again, its rows are not read: they are not those of the shards.
BEGIN;
SELECT connect_shell('t', 'map=am', 'key=k');
SELECT tries('SELECT count(*) FROM t');
ROLLBACK;
ALTER TABLE t SET ACCESS METHOD heap;
SELECT count(*) FROM t;
SET client_min_messages = warning;
DROP SCHEMA am CASCADE;
SELECT count(*) FROM shardlet.execute('am', 'DROP SCHEMA am CASCADE');
SELECT shardlet.drop_map('am');

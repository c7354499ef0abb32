-- LOCK TABLE locks on the shards as well, and VACUUM runs there.
SELECT shardlet.create_map('dl', shards => '{s1,s2,s3}');
CREATE SCHEMA ddl_lock;
SET search_path = ddl_lock;
SELECT count(*) FROM shardlet.execute('dl', 'CREATE SCHEMA ddl_lock');
CREATE TABLE a (k bigint NOT NULL, v text);
CREATE TABLE p (k bigint);
SELECT shardlet.distribute('a', 'dl', 'k'), shardlet.place('p', 's2');
CREATE TABLE here (a int);
CREATE FUNCTION locks() RETURNS TABLE (place text, locks text) LANGUAGE plpgsql AS $$
DECLARE
	sql text := $q$SELECT coalesce(string_agg(relname || ' ' || mode, ', ' ORDER BY relname, mode), '-') FROM pg_locks JOIN pg_class c ON c.oid = relation
		WHERE relnamespace = 'ddl_lock'::regnamespace AND pid = pg_backend_pid() AND mode <> 'AccessShareLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())$q$;
BEGIN
	place := 'router';
	EXECUTE sql INTO locks;
	RETURN NEXT;
	RETURN QUERY SELECT q.shardlet_shard::text, q.a FROM shardlet.query('dl', sql, per_shard => true) AS q(shardlet_shard name, a text) ORDER BY 1;
END $$;

BEGIN;
LOCK TABLE a, here, p;
SELECT * FROM locks();
ROLLBACK;
BEGIN;
LOCK a IN SHARE ROW EXCLUSIVE MODE NOWAIT;
SAVEPOINT x;
LOCK TABLE p IN EXCLUSIVE MODE;
SELECT * FROM locks();
ROLLBACK TO x;
SELECT * FROM locks();
COMMIT;
LOCK TABLE a;
BEGIN READ ONLY; LOCK TABLE a IN ACCESS SHARE MODE; REINDEX TABLE a; ROLLBACK;

VACUUM a;
SET client_min_messages = error;
VACUUM (FULL, ANALYZE) a (k), p, here;
VACUUM ANALYZE a;
RESET client_min_messages;
SELECT a FROM shardlet.query('dl', $$SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relnamespace = 'ddl_lock'::regnamespace AND reltuples >= 0$$, per_shard => true) AS q(a name[]) ORDER BY 1;
SELECT relname FROM pg_class WHERE relnamespace = 'ddl_lock'::regnamespace AND relkind = 'r' AND reltuples >= 0 ORDER BY relname;
BEGIN; VACUUM a; ROLLBACK;
DO 'BEGIN VACUUM a; END';
VACUUM here;

SET client_min_messages = warning;
DROP TABLE a, p, here;
DROP SCHEMA ddl_lock CASCADE;
SELECT count(*) FROM shardlet.execute('dl', 'DROP SCHEMA ddl_lock CASCADE');
SELECT shardlet.drop_map('dl');

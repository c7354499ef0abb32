-- Privileges and owners of tables are the same on the shards; who may not change
-- them here does not change them there.
SELECT shardlet.create_map('dg', shards => '{s1,s2,s3}');
CREATE SCHEMA ddl_grant;
SET search_path = ddl_grant;
SELECT count(*) FROM shardlet.execute('dg', 'CREATE SCHEMA ddl_grant');
CREATE TABLE a (k bigint NOT NULL, "b c" text);
CREATE TABLE p (k bigint);
SELECT shardlet.distribute('a', 'dg', 'k'), shardlet.place('p', 's2');
CREATE TABLE here (a int, "b c" text);
CREATE ROLE ddl_grant_a;
CREATE ROLE "ddl_grant B";
CREATE FUNCTION acl() RETURNS TABLE (place text, privileges text) LANGUAGE plpgsql AS $$
DECLARE
	sql text := $q$SELECT coalesce(string_agg(relname || coalesce(' ' || array_to_string((SELECT array_agg(replace(replace(a::text, 'xtm', 'xt'), current_user, 'me') ORDER BY a::text) FROM unnest(relacl) a), ' '), '') ||
		coalesce((SELECT string_agg(format(' (%s: %s)', attname, replace(attacl::text, current_user, 'me')), '') FROM pg_attribute WHERE attrelid = c.oid AND attacl IS NOT NULL), '') ||
		' of ' || replace(pg_get_userbyid(relowner), current_user, 'me'), ', ' ORDER BY relname), '-') FROM pg_class c WHERE relkind = 'r' AND relname <> 'here' AND relnamespace = 'ddl_grant'::regnamespace$q$;
BEGIN
	place := 'router';
	EXECUTE sql INTO privileges;
	RETURN NEXT;
	RETURN QUERY SELECT q.shardlet_shard::text, q.a FROM shardlet.query('dg', sql, per_shard => true) AS q(shardlet_shard name, a text) ORDER BY 1;
END $$;

GRANT SELECT ON a TO ddl_grant_a;
GRANT INSERT, UPDATE ("b c") ON TABLE a, here TO ddl_grant_a, "ddl_grant B" WITH GRANT OPTION;
SELECT * FROM acl();
REVOKE GRANT OPTION FOR INSERT ON a FROM ddl_grant_a CASCADE;
REVOKE ALL ON a FROM "ddl_grant B";
REVOKE UPDATE ("b c") ON a FROM ddl_grant_a;
SELECT * FROM acl();
GRANT TRUNCATE ON ALL TABLES IN SCHEMA ddl_grant TO PUBLIC, CURRENT_USER, ddl_grant_a;
SELECT * FROM acl();
REVOKE ALL ON ALL TABLES IN SCHEMA ddl_grant FROM PUBLIC, ddl_grant_a;
GRANT ALL PRIVILEGES ON p TO SESSION_USER;
SELECT * FROM acl();
-- No distributed table.
GRANT SELECT ON here TO ddl_grant_a;
GRANT USAGE ON SCHEMA ddl_grant TO ddl_grant_a;

-- Inside CREATE SCHEMA, in a function, rolled back.
BEGIN;
CREATE SCHEMA ddl_grant_2 GRANT SELECT ON ddl_grant.a TO ddl_grant_a;
DO $$ BEGIN GRANT DELETE ON a TO ddl_grant_a; END $$;
SELECT * FROM acl();
ROLLBACK;
SELECT * FROM acl();

ALTER TABLE a OWNER TO ddl_grant_a;
ALTER TABLE p OWNER TO "ddl_grant B", ADD COLUMN x int;
SELECT * FROM acl();
ALTER TABLE a OWNER TO CURRENT_USER;
ALTER TABLE p OWNER TO SESSION_USER;
SELECT * FROM acl();

-- Not the owner.
SET ROLE ddl_grant_a;
\set VERBOSITY sqlstate
ALTER TABLE a OWNER TO ddl_grant_a;
ALTER TABLE a ADD COLUMN x int;
ALTER TABLE a SET (fillfactor = 50);
ALTER TABLE a RENAME TO b;
ALTER TABLE a SET SCHEMA public;
COMMENT ON TABLE a IS 'x';
COMMENT ON CONSTRAINT zz ON a IS 'x';
BEGIN; LOCK TABLE a IN SHARE MODE; ROLLBACK;
VACUUM a;
REVOKE ALL ON a FROM PUBLIC;
\set VERBOSITY default
RESET ROLE;
GRANT SELECT ON a TO ddl_grant_nobody;
SELECT * FROM acl();

SET client_min_messages = warning;
DROP TABLE a, p, here;
DROP OWNED BY ddl_grant_a, "ddl_grant B";
DROP ROLE ddl_grant_a, "ddl_grant B";
DROP SCHEMA ddl_grant CASCADE;
SELECT count(*) FROM shardlet.execute('dg', 'DROP SCHEMA ddl_grant CASCADE');
SELECT shardlet.drop_map('dg');

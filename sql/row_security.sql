-- Row-level security of shell tables: what is carried to the shards, and what the
-- router plans.  test/t/432_table_row_security.pl executes statements as ordinary
-- users, who need a password that shards ask for.
CREATE SCHEMA row_security;
SET search_path = row_security;
SELECT shardlet.create_map('rs');
SET client_min_messages = warning;
DROP ROLE IF EXISTS rs_alice, rs_bob;
RESET client_min_messages;
CREATE ROLE rs_alice;
CREATE ROLE rs_bob;
CREATE TABLE notes (tenant bigint, id int, owner name, body text, PRIMARY KEY (tenant, id));
INSERT INTO notes SELECT i % 5, i, 'rs_alice', 'body' || i FROM generate_series(1, 40) i;
CREATE TABLE parts (tenant bigint, id int, PRIMARY KEY (tenant, id)) PARTITION BY RANGE (id);
CREATE TABLE parts1 PARTITION OF parts FOR VALUES FROM (0) TO (20);
CREATE POLICY tenant ON notes USING (tenant = current_setting('app.tenant')::bigint);
ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
CREATE POLICY part ON parts1 USING (id > 3) WITH CHECK (id > 4);
ALTER TABLE parts1 ENABLE ROW LEVEL SECURITY;
GRANT USAGE ON SCHEMA row_security TO rs_alice, rs_bob;
GRANT ALL ON notes, parts TO rs_alice, rs_bob;

-- What the shards have; the same on all of them.
CREATE FUNCTION on_shards(name text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT DISTINCT line FROM shardlet.query('rs', format($q$
		SELECT concat_ws(' ', CASE WHEN c.relrowsecurity THEN 'enabled' END, CASE WHEN c.relforcerowsecurity THEN 'forced' END,
			p.polname, p.polpermissive, p.polcmd, ARRAY(SELECT r.rolname FROM pg_roles r WHERE r.oid = ANY (p.polroles) ORDER BY 1),
			pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
		FROM pg_class c LEFT JOIN pg_policy p ON p.polrelid = c.oid WHERE c.oid = to_regclass('row_security.%s')$q$, name)) AS s(line text)
	ORDER BY 1 $$;

SELECT shardlet.distribute('notes', 'rs', 'tenant');
SELECT shardlet.distribute('parts', 'rs', 'tenant');
SELECT on_shards('notes');
SELECT on_shards('parts');
SELECT on_shards('parts1');

-- DDL.
CREATE POLICY own ON notes AS RESTRICTIVE FOR SELECT TO rs_bob USING (owner = current_user);
SELECT on_shards('notes');
ALTER POLICY own ON notes TO rs_bob, rs_alice USING (owner = session_user OR id IN (SELECT id FROM parts));
SELECT on_shards('notes');
ALTER POLICY own ON notes RENAME TO mine;
ALTER POLICY none ON notes RENAME TO mine;
SELECT on_shards('notes');
BEGIN;
DROP POLICY mine ON notes;
ALTER TABLE notes DISABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT on_shards('notes');
ROLLBACK;
SELECT on_shards('notes');
ALTER TABLE notes FORCE ROW LEVEL SECURITY;
SELECT on_shards('notes');
ALTER TABLE notes NO FORCE ROW LEVEL SECURITY;
DROP POLICY mine ON notes;
DROP POLICY mine ON notes;
DROP POLICY IF EXISTS mine ON notes;
SELECT on_shards('notes');
SET ROLE rs_alice;
CREATE POLICY hole ON notes USING (true);
ALTER TABLE notes DISABLE ROW LEVEL SECURITY;
DROP POLICY tenant ON notes;
RESET ROLE;
-- What the shards lack.
CREATE TABLE here (tenant bigint);
CREATE POLICY lost ON notes USING (tenant IN (SELECT tenant FROM here));
SELECT polname FROM pg_policy WHERE polrelid = 'notes'::regclass;
-- Policies of other tables are the router's.
CREATE POLICY here ON here USING (true);
ALTER POLICY here ON here USING (false);
DROP POLICY here ON here;
DROP TABLE here;

-- A policy on the key selects the shard, at execution.
SET app.tenant = 3;
SET ROLE rs_alice;
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM notes;
EXPLAIN (VERBOSE, COSTS OFF) SELECT body FROM notes WHERE tenant = 4 AND id = 8;
EXPLAIN (VERBOSE, COSTS OFF) SELECT count(*) FROM parts LEFT JOIN notes ON notes.tenant = parts.tenant;
EXPLAIN (VERBOSE, COSTS OFF) UPDATE notes SET body = 'x' WHERE id = 8;
EXPLAIN (VERBOSE, COSTS OFF) DELETE FROM notes WHERE id = 8;
-- Leaky conditions are checked on the router, after the policy.
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM notes WHERE body LIKE 'b%';
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM notes a JOIN notes b ON a.tenant = b.tenant AND a.id = b.id AND a.id / b.id = 1;
-- The router checks what is written.
EXPLAIN (VERBOSE, COSTS OFF) UPDATE notes SET tenant = 4 WHERE id = 8;
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO notes VALUES (3, 100), (4, 101);
COPY notes FROM stdin;
\.
INSERT INTO notes VALUES (3, 3) ON CONFLICT (tenant, id) DO UPDATE SET body = 'new';
-- The plan of a prepared statement is the role's.
PREPARE q AS SELECT count(*) FROM notes;
EXPLAIN (COSTS OFF) EXECUTE q;
RESET ROLE;
EXPLAIN (COSTS OFF) EXECUTE q;
EXECUTE q;
-- Others are shipped as ever.
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM notes WHERE tenant = 4 AND body LIKE 'b%';
-- (SELECT ...) and several policies.
CREATE POLICY own ON notes AS RESTRICTIVE USING (owner = (SELECT current_user));
ALTER POLICY tenant ON notes USING (tenant = (SELECT current_setting('app.tenant')::bigint));
SET ROLE rs_bob;
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM notes WHERE id = 8;
RESET ROLE;
CREATE POLICY more ON notes FOR SELECT USING (id < 10);
SET ROLE rs_bob;
EXPLAIN (VERBOSE, COSTS OFF) SELECT * FROM notes;
RESET ROLE;

-- A shard that joins the map gets them.
SELECT shardlet.create_map('rs2', shards => '{s1}');
CREATE TABLE late (tenant bigint PRIMARY KEY);
SELECT shardlet.distribute('late', 'rs2', 'tenant');
CREATE POLICY late ON late FOR INSERT TO rs_bob WITH CHECK (tenant > 0);
ALTER TABLE late ENABLE ROW LEVEL SECURITY;
SELECT shardlet.alter_map('rs2', add_shards => '{s2}');
SELECT * FROM shardlet.query('rs', $$SELECT relrowsecurity, polname, pg_get_expr(polwithcheck, polrelid) FROM pg_class c
	JOIN pg_policy p ON polrelid = c.oid WHERE c.oid = 'row_security.late'::regclass$$, shards => '{s1,s2}') AS q(enabled bool, name name, checked text);

-- Policies that only the shards have would not hold for the router's users.
SELECT count(*) FROM shardlet.execute('rs', $$CREATE TABLE row_security.theirs (tenant bigint PRIMARY KEY)$$);
SELECT count(*) FROM shardlet.execute('rs', $$ALTER TABLE row_security.theirs ENABLE ROW LEVEL SECURITY$$, shards => '{s3}');
SELECT shardlet.attach('row_security.theirs', 'rs', 'tenant');
SELECT count(*) FROM shardlet.execute('rs', $$ALTER TABLE row_security.theirs DISABLE ROW LEVEL SECURITY$$);
SELECT shardlet.attach('row_security.theirs', 'rs', 'tenant');
ALTER TABLE theirs ENABLE ROW LEVEL SECURITY;
SELECT shardlet.attach('row_security.theirs', 'rs', 'tenant');
SELECT on_shards('theirs');

-- All rows and the policies come back.
SELECT shardlet.undistribute('notes');
SELECT count(*) FROM notes;
\d notes

SET client_min_messages = warning;
DROP SCHEMA row_security CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA row_security CASCADE');
SELECT shardlet.drop_map('rs'), shardlet.drop_map('rs2');
DROP ROLE rs_alice, rs_bob;

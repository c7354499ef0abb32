-- Custom settings that shards get with the statements.
CREATE SCHEMA forward_settings;
SET search_path = forward_settings;
SELECT shardlet.create_map('fs');
CREATE TABLE t (k bigint PRIMARY KEY, v text);
SELECT shardlet.distribute('t', 'fs', 'k');
-- On the shards, a trigger tells what it sees.
SELECT count(*) FROM shardlet.execute('fs', $$CREATE FUNCTION forward_settings.note() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN NEW.v := concat_ws(''|'', coalesce(current_setting(''app.tenant'', true), ''-''), coalesce(current_setting(''app.uid'', true), ''-'')); RETURN NEW; END'$$);
SELECT count(*) FROM shardlet.execute('fs', 'CREATE TRIGGER note BEFORE INSERT OR UPDATE ON forward_settings.t FOR EACH ROW EXECUTE FUNCTION forward_settings.note()');
CREATE FUNCTION seen() RETURNS SETOF text LANGUAGE sql AS $$ SELECT DISTINCT s FROM shardlet.query('fs',
	'SELECT concat_ws(''|'', coalesce(current_setting(''app.tenant'', true), ''-''), coalesce(current_setting(''app.uid'', true), ''-''))') AS q(s text) $$;

-- The list.
SET shardlet.forward_settings = 'app.*';
SET shardlet.forward_settings = 'work_mem';
SET shardlet.forward_settings = 'shardlet.fault';
SET shardlet.forward_settings = 'app.a, app.a';
SET shardlet.forward_settings = 'app.a, app.b,, app.c';
SET shardlet.forward_settings = 'a.a, a.b, a.c, a.d, a.e, a.f, a.g, a.h, a.i';
SET shardlet.forward_settings = 'app.';
SET shardlet.forward_settings = '.app';
SET shardlet.forward_settings = 'app.1a';
SHOW shardlet.forward_settings;
CREATE ROLE fs_user;
SET ROLE fs_user;
SET shardlet.forward_settings = 'app.tenant';
RESET ROLE;
DROP ROLE fs_user;

-- Nothing is sent that is not listed.
SET app.tenant = 'one';
SELECT seen();
SET shardlet.forward_settings = 'app.tenant, app.uid';
SELECT seen();
-- All ways of changing them.
SELECT set_config('app.uid', 'it''s me', false);
SELECT seen();
BEGIN;
SELECT set_config('app.tenant', 'two', true);
SELECT seen();
SAVEPOINT s;
SET LOCAL app.tenant = 'three';
SELECT seen();
ROLLBACK TO s;
SELECT seen();
COMMIT;
SELECT seen();
CREATE FUNCTION as_four() RETURNS SETOF text LANGUAGE plpgsql SET app.tenant = 'four' AS 'BEGIN RETURN QUERY SELECT seen(); END';
SELECT as_four();
SELECT seen();
DO $$ BEGIN PERFORM set_config('app.tenant', 'five', false); RAISE division_by_zero; EXCEPTION WHEN division_by_zero THEN NULL; END $$;
SELECT seen();
-- Shards see the values of each statement, one row or many, and in a transaction.
INSERT INTO t VALUES (1);
SET app.tenant = 'six';
INSERT INTO t VALUES (2), (3), (4), (5);
BEGIN;
INSERT INTO t VALUES (6);
SET LOCAL app.tenant = 'seven';
INSERT INTO t VALUES (7);
SAVEPOINT s;
SET LOCAL app.tenant = 'eight';
UPDATE t SET k = k WHERE k = 6;
SELECT * FROM t WHERE k = 6;
ROLLBACK TO s;
UPDATE t SET k = k WHERE k = 7;
COMMIT;
UPDATE t SET k = k WHERE k = 5;
SELECT * FROM t ORDER BY k;
PREPARE p(bigint) AS UPDATE t SET k = k WHERE k = $1 RETURNING v;
EXECUTE p(1);
SET app.tenant = 'nine';
EXECUTE p(1);
-- A rollback on the shards does not leave the old values there.
BEGIN;
SELECT seen();
SET app.tenant = 'ten';
UPDATE t SET k = k WHERE k = 1 RETURNING v;
ROLLBACK;
SELECT seen();
UPDATE t SET k = k WHERE k = 1 RETURNING v;
SELECT 1 / (k - k) FROM t WHERE k = 1;
SELECT seen();
-- Empty, and not listed any more.
RESET app.tenant;
SELECT seen();
SET app.tenant = 'eleven';
SELECT seen();
SET shardlet.forward_settings = 'app.uid';
SELECT seen();
RESET shardlet.forward_settings;
SELECT seen();

SET client_min_messages = warning;
DROP SCHEMA forward_settings CASCADE;
SELECT count(*) FROM shardlet.execute('fs', 'DROP SCHEMA forward_settings CASCADE');
SELECT shardlet.drop_map('fs');

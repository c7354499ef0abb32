-- CREATE TRIGGER on a sharded table warns of what the function cannot do on a shard, and of nothing else.
SELECT shardlet.create_map('tw', shards => '{s1,s2}');
CREATE SCHEMA ddl_trigger_warning;
SET search_path = ddl_trigger_warning;
CREATE TABLE t (id bigint PRIMARY KEY, n int, note text);
CREATE TABLE other (id int);
SELECT shardlet.distribute('t', 'tw', 'id');
-- Makes a trigger with this body, and takes it away again.
CREATE FUNCTION body(body text) RETURNS text LANGUAGE plpgsql AS $f$
BEGIN
	EXECUTE format('CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS %L', body);
	EXECUTE 'CREATE TRIGGER f BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()';
	EXECUTE 'DROP TRIGGER f ON t';
	DROP FUNCTION f();
	RETURN NULL;
END $f$;
\set VERBOSITY terse
-- Nothing to say.
SELECT count(body(b)) FROM unnest(ARRAY[
	'BEGIN IF NEW.n IS DISTINCT FROM OLD.n THEN NEW.note := ''changed from '' || OLD.n; END IF; RETURN NEW; END',
	'BEGIN NEW.n := extract(epoch FROM now())::int; RETURN NEW; END',
	'BEGIN NEW.note := trim(BOTH ''x'' FROM substring(NEW.note FROM 2)); RETURN NEW; END',
	E'BEGIN -- from table\n/* a JOIN b */ RETURN NEW; END']) b;
SELECT body('BEGIN NOTIFY x; RETURN NEW; END');
SELECT body('BEGIN PERFORM pg_notify(''x'', NEW.note); RETURN NEW; END');
SELECT body(E'BEGIN SELECT max(id) INTO NEW.n\n\tFROM\n\tother; RETURN NEW; END');
SELECT body('BEGIN NEW.n := (SELECT count(*) FROM ddl_trigger_warning.t); RETURN NEW; END');
SELECT body('BEGIN NEW.n := (SELECT extract(epoch FROM now()) FROM other LIMIT 1); RETURN NEW; END');
SELECT body('BEGIN DELETE FROM other; NOTIFY x; RETURN NEW; END');
DROP TABLE t;
DROP SCHEMA ddl_trigger_warning CASCADE;
SELECT count(*) FROM shardlet.execute('tw', 'DROP SCHEMA ddl_trigger_warning');
SELECT shardlet.drop_map('tw');

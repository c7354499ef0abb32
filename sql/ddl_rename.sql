-- Names and comments are the same on the router and on the shards, also after
-- they change, and the key follows the name of its column.
SELECT shardlet.create_map('dr', key_types => '{bigint,text}', shards => '{s1,s2,s3}');
CREATE SCHEMA ddl_rename;
SET search_path = ddl_rename;
SELECT count(*) FROM shardlet.execute('dr', 'CREATE SCHEMA ddl_rename');
CREATE TABLE a (k1 bigint NOT NULL, "K 2" text NOT NULL, v int CONSTRAINT positive CHECK (v > 0), CONSTRAINT a_pk PRIMARY KEY (k1, "K 2"));
SELECT shardlet.distribute('a', 'dr', 'k1, "K 2"');
CREATE FUNCTION there(sql text) RETURNS TABLE (answer text, shards bigint) LANGUAGE sql AS $$
	SELECT a, count(*) FROM shardlet.query('dr', sql, per_shard => true) AS q(a text) GROUP BY a ORDER BY a $$;
CREATE FUNCTION shape(tbl text) RETURNS TABLE (place text, columns text) LANGUAGE plpgsql AS $$
DECLARE
	sql text := format($q$SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum)), ', ' ORDER BY attnum) || coalesce(': ' || obj_description(%1$L::regclass, 'pg_class'), '')
		FROM pg_attribute WHERE attrelid = %1$L::regclass AND attnum > 0 AND NOT attisdropped$q$, tbl);
BEGIN
	place := 'router';
	EXECUTE sql INTO columns;
	RETURN NEXT;
	RETURN QUERY SELECT shards || ' shards', answer FROM there(sql);
END $$;

ALTER TABLE a RENAME v TO "Value";
ALTER TABLE a RENAME COLUMN "K 2" TO "k""2";
ALTER TABLE IF EXISTS a RENAME k1 TO k;
SELECT * FROM shape('a');
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'a'::regclass;
ALTER TABLE a RENAME "k""2" TO k2;
SELECT ftoptions FROM pg_foreign_table WHERE ftrelid = 'a'::regclass;
SELECT * FROM a WHERE k = 1 AND k2 = 'x';
ALTER TABLE a RENAME k TO "Value";
ALTER TABLE a RENAME zz TO z;
BEGIN; ALTER TABLE a RENAME k TO k7; ALTER TABLE a RENAME TO a7; SELECT * FROM shape('a7'); ROLLBACK;
ALTER TABLE a RENAME CONSTRAINT a_pk TO a_primary;
ALTER TABLE a RENAME CONSTRAINT positive TO above_zero;
ALTER TABLE a RENAME CONSTRAINT zz TO z;
SELECT * FROM there($$SELECT string_agg(conname, ', ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'a'::regclass AND contype <> 'n'$$);
SELECT conname FROM pg_constraint WHERE conrelid = 'a'::regclass AND contype = 'c';

COMMENT ON TABLE a IS 'a''s \ "comment"';
COMMENT ON COLUMN ddl_rename.a."Value" IS 'a value';
COMMENT ON CONSTRAINT above_zero ON a IS 'here and there';
COMMENT ON CONSTRAINT a_primary ON a IS 'there';
SELECT * FROM shape('a');
SELECT * FROM there($$SELECT string_agg(obj_description(oid, 'pg_constraint'), ', ' ORDER BY conname) FROM pg_constraint WHERE conrelid = 'a'::regclass$$);
COMMENT ON TABLE a IS NULL;
COMMENT ON COLUMN a."Value" IS NULL;
SELECT * FROM shape('a');

ALTER TABLE a RENAME TO "The table";
SELECT * FROM shape('"The table"');
CREATE SCHEMA ddl_rename_2;
ALTER TABLE "The table" SET SCHEMA ddl_rename_2;
SELECT * FROM shape('ddl_rename_2."The table"');
ALTER TABLE ddl_rename_2."The table" SET SCHEMA ddl_rename;
ALTER TABLE "The table" SET SCHEMA ddl_rename_2;
ALTER TABLE ddl_rename_2."The table" RENAME TO a;
ALTER SCHEMA ddl_rename_2 RENAME TO ddl_rename_3;
SELECT * FROM shape('ddl_rename_3.a');
SELECT * FROM ddl_rename_3.a;
ALTER TABLE ddl_rename_3.a SET SCHEMA no_such_schema;
-- A schema without distributed tables is the router's business.
CREATE SCHEMA ddl_rename_4;
ALTER SCHEMA ddl_rename_4 RENAME TO ddl_rename_5;
DROP SCHEMA ddl_rename_5;
-- One with types that they are made of is not: below a domain of a domain, in an array, of a range.
CREATE SCHEMA ddl_rename_6;
CREATE DOMAIN ddl_rename_6.inner_one AS int;
CREATE DOMAIN outer_one AS ddl_rename_6.inner_one;
CREATE TYPE ddl_rename_6.span AS RANGE (subtype = int);
CREATE TABLE typed (k bigint NOT NULL, k2 text NOT NULL, v outer_one[], r ddl_rename_6.span);
SELECT shardlet.distribute('typed', 'dr', 'k, k2');
ALTER SCHEMA ddl_rename_6 RENAME TO ddl_rename_7;
INSERT INTO typed VALUES (1, 'a', '{1}', '[1,3)') RETURNING v, r;
SELECT * FROM there($$SELECT nspname FROM pg_namespace WHERE nspname LIKE 'ddl\_rename\__'$$);
DROP TABLE typed;
DROP DOMAIN outer_one;
SET client_min_messages = warning;
DROP SCHEMA ddl_rename_7 CASCADE;
SELECT count(*) FROM shardlet.execute('dr', 'DROP SCHEMA ddl_rename_7 CASCADE');
RESET client_min_messages;

-- Triggers that are made here stay here; those of the shards are reached by name.
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER t_here BEFORE INSERT ON ddl_rename_3.a FOR EACH ROW EXECUTE FUNCTION f();
SELECT count(*) FROM shardlet.execute('dr', 'CREATE TRIGGER t_there BEFORE INSERT ON ddl_rename_3.a FOR EACH ROW EXECUTE FUNCTION f()');
ALTER TABLE ddl_rename_3.a DISABLE TRIGGER t_here, DISABLE TRIGGER t_there;
ALTER TRIGGER t_here ON ddl_rename_3.a RENAME TO t_here_2;
ALTER TRIGGER t_there ON ddl_rename_3.a RENAME TO t_there_2;
COMMENT ON TRIGGER t_there_2 ON ddl_rename_3.a IS 'far away';
SELECT tgname, tgenabled FROM pg_trigger WHERE tgrelid = 'ddl_rename_3.a'::regclass;
SELECT * FROM there($$SELECT concat_ws(' ', tgname, tgenabled, obj_description(oid, 'pg_trigger')) FROM pg_trigger WHERE tgrelid = 'ddl_rename_3.a'::regclass$$);
ALTER TABLE ddl_rename_3.a ENABLE TRIGGER ALL;
SELECT * FROM there($$SELECT concat_ws(' ', tgname, tgenabled) FROM pg_trigger WHERE tgrelid = 'ddl_rename_3.a'::regclass$$);
DROP TRIGGER t_here_2 ON ddl_rename_3.a;
DROP TRIGGER t_there_2 ON ddl_rename_3.a;
DROP TRIGGER IF EXISTS t_there_2 ON ddl_rename_3.a;
DROP TRIGGER t_there_2 ON ddl_rename_3.a;

DROP TABLE ddl_rename_3.a;
SET client_min_messages = warning;
DROP SCHEMA ddl_rename, ddl_rename_3 CASCADE;
SELECT count(*) FROM shardlet.execute('dr', 'DROP SCHEMA ddl_rename, ddl_rename_3 CASCADE');
SELECT shardlet.drop_map('dr');

-- Types and domains change on the shards as well if a table there is made of them.
SELECT shardlet.create_map('dt', shards => '{s1,s2,s3}');
CREATE SCHEMA ddl_type;
SET search_path = ddl_type;
SELECT count(*) FROM shardlet.execute('dt', 'CREATE SCHEMA ddl_type');
CREATE FUNCTION everywhere(sql text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE sql; PERFORM shardlet.execute('dt', sql); END $$;
SELECT everywhere('CREATE TYPE mood AS ENUM (''sad'')'), everywhere('CREATE TYPE unused AS ENUM (''a'')'),
	everywhere('CREATE DOMAIN amount AS int'), everywhere('CREATE TYPE pair AS (a int, b mood[])'), everywhere('CREATE DOMAIN few_pairs AS pair[]');
CREATE TABLE a (k bigint NOT NULL, p few_pairs, n amount);
SELECT shardlet.distribute('a', 'dt', 'k');
CREATE FUNCTION types() RETURNS TABLE (place text, types text) LANGUAGE plpgsql AS $$
DECLARE
	sql text := $q$SELECT string_agg(concat_ws(' ', typname, (SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = t.oid),
			(SELECT array_agg(attname || ' ' || atttypid::regtype ORDER BY attnum) FROM pg_attribute WHERE attrelid = typrelid AND NOT attisdropped),
			(SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), ' ') FROM pg_constraint WHERE contypid = t.oid AND contype = 'c'), typdefault), '; ' ORDER BY typname)
		FROM pg_type t WHERE typnamespace = 'ddl_type'::regnamespace AND typelem = 0 AND typname <> 'a'$q$;
BEGIN
	place := 'router';
	EXECUTE sql INTO types;
	RETURN NEXT;
	RETURN QUERY SELECT count(*) || ' shards', q.a FROM shardlet.query('dt', sql, per_shard => true) AS q(a text) GROUP BY 2 ORDER BY 2;
END $$;
SELECT * FROM types();
ALTER TYPE mood ADD VALUE 'happy';
ALTER TYPE mood ADD VALUE IF NOT EXISTS 'happy';
ALTER TYPE mood ADD VALUE 'so so' BEFORE 'happy';
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
ALTER TYPE pair ADD ATTRIBUTE c text;
ALTER DOMAIN amount ADD CONSTRAINT positive CHECK (VALUE > 0);
ALTER DOMAIN amount RENAME CONSTRAINT positive TO above_zero;
ALTER DOMAIN amount SET DEFAULT 7;
SELECT * FROM types();
ALTER DOMAIN amount DROP CONSTRAINT above_zero;
ALTER TYPE mood RENAME TO spirits;
SELECT * FROM types();
BEGIN; ALTER DOMAIN amount DROP DEFAULT; ROLLBACK;
INSERT INTO a VALUES (1, NULL, 5);
ALTER DOMAIN amount ADD CHECK (VALUE > 100);
SELECT * FROM types();
-- The shards may have another type of the name ahead in the search path.
SELECT count(*) FROM shardlet.execute('dt', 'CREATE SCHEMA ddl_type_there');
SELECT count(*) FROM shardlet.execute('dt', 'CREATE TYPE ddl_type_there.spirits AS ENUM (''low'')');
SET search_path = ddl_type_there, ddl_type;
ALTER /* the */ TYPE spirits ADD VALUE 'high';
SET search_path = ddl_type;
SELECT DISTINCT e FROM shardlet.query('dt', $$SELECT n.nspname || ' ' || enumlabel FROM pg_enum JOIN pg_type t ON t.oid = enumtypid JOIN pg_namespace n ON n.oid = typnamespace WHERE typname = 'spirits'$$) AS q(e text) ORDER BY 1;
SELECT count(*) FROM shardlet.execute('dt', 'DROP TYPE ddl_type_there.spirits');
SELECT count(*) FROM shardlet.execute('dt', 'DROP SCHEMA ddl_type_there');
-- Not used by a distributed table: the router's business.
ALTER TYPE unused ADD VALUE 'b';
ALTER TYPE unused RENAME TO unused_2;
SELECT * FROM types();

SET client_min_messages = warning;
DROP TABLE a;
DROP SCHEMA ddl_type CASCADE;
SELECT count(*) FROM shardlet.execute('dt', 'DROP SCHEMA ddl_type CASCADE');
SELECT shardlet.drop_map('dt');

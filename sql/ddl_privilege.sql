-- What the owner of a table has the shards compute runs there with the rights of
-- the user mapping.  Who is no superuser must not reach anything by that.
CREATE ROLE ddl_trust_owner;
SELECT shardlet.create_map('dt', shards => '{s1,s2,s3}');
CREATE SCHEMA ddl_trust AUTHORIZATION ddl_trust_owner;
SET search_path = ddl_trust, public;
CREATE TABLE secret (k bigint PRIMARY KEY);
SELECT shardlet.distribute('secret', 'dt', 'k');
CREATE DOMAIN small AS int;
ALTER DOMAIN small OWNER TO ddl_trust_owner;
CREATE TABLE mine (k bigint NOT NULL, a int CONSTRAINT old CHECK (a > 0), b text DEFAULT 'b', s small, PRIMARY KEY (k));
ALTER TABLE mine OWNER TO ddl_trust_owner;
SELECT shardlet.distribute('mine', 'dt', 'k');
CREATE TABLE parts (k bigint NOT NULL, a int) PARTITION BY LIST (a);
ALTER TABLE parts OWNER TO ddl_trust_owner;
SELECT shardlet.distribute('parts', 'dt', 'k');
CREATE TABLE words (id int PRIMARY KEY);
ALTER TABLE words OWNER TO ddl_trust_owner;
SELECT shardlet.make_reference('words');

SET ROLE ddl_trust_owner;
ALTER TABLE mine ALTER b TYPE text USING query_to_xml('SELECT 1', true, true, '')::text;
ALTER TABLE mine ALTER b TYPE text USING pg_read_file(b);
ALTER TABLE mine ADD c text CHECK (table_to_xml('secret', true, true, '') IS NULL);
ALTER TABLE mine ADD CONSTRAINT c CHECK (query_to_xml('SELECT 1', true, true, '') IS NULL) NOT VALID;
ALTER TABLE mine ADD c text DEFAULT lo_get(1)::text;
ALTER TABLE mine ALTER b SET DEFAULT set_config('a.b', 'c', true);
ALTER TABLE words ADD CONSTRAINT c CHECK (query_to_xml('SELECT 1', true, true, '') IS NULL) NOT VALID;
ALTER DOMAIN small ADD CHECK (query_to_xml('SELECT 1', true, true, '') IS NULL);
CREATE FUNCTION query_to_xml(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION own(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1';
ALTER TABLE mine ADD CHECK (query_to_xml(b) IS NULL);
ALTER TABLE mine ADD CHECK (own(b) IS NULL);
DROP FUNCTION query_to_xml(text), own(text);
CREATE STATISTICS st ON (pg_read_file(b)), a FROM mine;
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES IN (length(query_to_xml('SELECT 1', true, true, '')::text));
CREATE TABLE parts_1 PARTITION OF parts (CHECK (k > 0)) FOR VALUES IN (1);
ALTER TABLE parts ATTACH PARTITION other FOR VALUES IN (1);
ALTER TABLE mine ADD FOREIGN KEY (k) REFERENCES secret;
ALTER TABLE mine ADD FOREIGN KEY (k) REFERENCES secret (k);
RESET ROLE;
ALTER TABLE parts ATTACH PARTITION secret FOR VALUES IN (1);
SELECT conname FROM pg_constraint WHERE conrelid = 'mine'::regclass AND contype <> 'n' ORDER BY 1;

-- The right to refer to a column is enough; then it is the shards' turn.
GRANT REFERENCES (k) ON secret TO ddl_trust_owner;
SET ROLE ddl_trust_owner;
\set VERBOSITY sqlstate
ALTER TABLE mine ADD FOREIGN KEY (k) REFERENCES secret;
ALTER TABLE mine ADD c timestamptz DEFAULT clock_timestamp(), ADD CHECK (a < random() * 10 OR b < to_char(now(), 'YYYY'));
\set VERBOSITY default
RESET ROLE;

-- Nothing of the user's is found by names in what runs with all rights.
GRANT USAGE ON FOREIGN SERVER shardlet_tables TO ddl_trust_owner;
GRANT EXECUTE ON FUNCTION shardlet.distribute TO ddl_trust_owner;
SET ROLE ddl_trust_owner;
CREATE FUNCTION pg_temp.spy() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	RAISE NOTICE 'runs as superuser: %', (SELECT rolsuper FROM pg_roles WHERE rolname = current_user);
	RETURN true;
END $$;
CREATE DOMAIN pg_temp.name AS text CHECK (pg_temp.spy());
CREATE TEMP VIEW pg_class AS SELECT * FROM pg_catalog.pg_class WHERE pg_temp.spy();
CREATE TABLE one (k bigint PRIMARY KEY);
CREATE TABLE two (k bigint PRIMARY KEY REFERENCES one);
\set VERBOSITY sqlstate
SELECT shardlet.distribute('two', 'dt', 'k');
SELECT shardlet.distribute('two', 'dt', 'k', true);
\set VERBOSITY default
DROP TABLE one, two;
DROP VIEW pg_temp.pg_class;
DROP DOMAIN pg_temp.name;
DROP FUNCTION pg_temp.spy;
RESET ROLE;
REVOKE EXECUTE ON FUNCTION shardlet.distribute FROM ddl_trust_owner;
REVOKE USAGE ON FOREIGN SERVER shardlet_tables FROM ddl_trust_owner;

-- What is no identity column keeps its default.
ALTER TABLE mine ALTER b DROP IDENTITY IF EXISTS;
SELECT DISTINCT d FROM shardlet.query('dt', $$SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'ddl_trust.mine'::regclass$$) AS q(d text);

-- The primary key has the name of its index, and ALTER TABLE can rename one.
ALTER INDEX mine_pkey RENAME TO mine_key;
SELECT conname FROM pg_constraint WHERE conrelid = 'mine'::regclass AND contype = 'p';
ALTER TABLE mine_key RENAME TO mine_key_2;
SELECT conname FROM pg_constraint WHERE conrelid = 'mine'::regclass AND contype = 'p';
ALTER TABLE words_pkey RENAME TO words_key;
SELECT DISTINCT i FROM shardlet.query('dt', $$SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid IN ('ddl_trust.mine'::regclass, 'ddl_trust.words'::regclass)$$) AS q(i text) ORDER BY 1;

DROP TABLE mine, secret, parts, words;
SELECT shardlet.drop_map('dt');
SET client_min_messages = warning;
DROP SCHEMA ddl_trust CASCADE;
SELECT count(*) FROM shardlet.execute(NULL, 'DROP SCHEMA ddl_trust CASCADE');
DROP ROLE ddl_trust_owner;

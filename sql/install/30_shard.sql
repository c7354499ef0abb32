-- Shards.

-- DDL that shards have missed while they were offline: src/metadata/missed_ddl.c knows the columns by number.  The condition
-- is a query that the shard answers first; with "f" it does not execute the statement.
CREATE TABLE shardlet.catalog_missed_ddl (
	shard_id int NOT NULL,
	id bigint NOT NULL,
	statement text NOT NULL,
	condition text,
	role text NOT NULL,
	settings text[] NOT NULL,
	CONSTRAINT catalog_missed_ddl_pkey PRIMARY KEY (shard_id, id)
);
CREATE SEQUENCE shardlet.missed_ddl_id_seq;
SELECT pg_catalog.pg_extension_config_dump('shardlet.catalog_missed_ddl', '');
SELECT pg_catalog.pg_extension_config_dump('shardlet.missed_ddl_id_seq', '');

CREATE FUNCTION shardlet.add_shard(
	shard name,
	conninfo text DEFAULT NULL,
	region text DEFAULT NULL,
	weight real DEFAULT 1,
	client_address text DEFAULT NULL,
	install bool DEFAULT true,
	takeover bool DEFAULT false)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_add_shard';
COMMENT ON FUNCTION shardlet.add_shard(name, text, text, real, text, bool, bool)
	IS 'makes a database a shard: a new local one, one with an address, or one with a server';
REVOKE ALL ON FUNCTION shardlet.add_shard(name, text, text, real, text, bool, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.alter_shard(
	shard name,
	conninfo text DEFAULT NULL,
	region text DEFAULT NULL,
	weight real DEFAULT NULL,
	state text DEFAULT NULL,
	client_address text DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_alter_shard';
COMMENT ON FUNCTION shardlet.alter_shard(name, text, text, real, text, text)
	IS 'changes what it names of a shard';
REVOKE ALL ON FUNCTION shardlet.alter_shard(name, text, text, real, text, text) FROM PUBLIC;

CREATE FUNCTION shardlet.drop_shard(shard name, force bool DEFAULT false)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_drop_shard';
COMMENT ON FUNCTION shardlet.drop_shard(name, bool)
	IS 'forgets a shard; drops no database and no row';
REVOKE ALL ON FUNCTION shardlet.drop_shard(name, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.health(
	OUT shard name,
	OUT ok bool,
	OUT latency_ms double precision,
	OUT version text,
	OUT message text)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_health';
COMMENT ON FUNCTION shardlet.health() IS 'tries to reach every shard';
REVOKE ALL ON FUNCTION shardlet.health() FROM PUBLIC;

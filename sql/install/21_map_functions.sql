-- Functions that make and change maps.

CREATE FUNCTION shardlet.create_map(
	map name,
	kind text DEFAULT 'hash',
	key_types regtype[] DEFAULT '{bigint}',
	shards name[] DEFAULT NULL,
	shardlets int DEFAULT NULL,
	via text DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_create_map';
COMMENT ON FUNCTION shardlet.create_map(name, text, regtype[], name[], int, text)
	IS 'makes a map from keys to shardlets';
REVOKE ALL ON FUNCTION shardlet.create_map(name, text, regtype[], name[], int, text) FROM PUBLIC;

CREATE FUNCTION shardlet.alter_map(
	map name,
	add_shards name[] DEFAULT NULL,
	drop_shards name[] DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_alter_map';
COMMENT ON FUNCTION shardlet.alter_map(name, name[], name[])
	IS 'changes the set of shards that a map uses';
REVOKE ALL ON FUNCTION shardlet.alter_map(name, name[], name[]) FROM PUBLIC;

CREATE FUNCTION shardlet.drop_map(map name)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_drop_map';
COMMENT ON FUNCTION shardlet.drop_map(name) IS 'forgets a map';
REVOKE ALL ON FUNCTION shardlet.drop_map(name) FROM PUBLIC;

CREATE FUNCTION shardlet.assign_range(map name, shard name, low "any", high "any")
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_assign_range';
COMMENT ON FUNCTION shardlet.assign_range(name, name, "any", "any")
	IS 'gives a range of keys to a shard; the high end is not included, NULL is unbounded';
REVOKE ALL ON FUNCTION shardlet.assign_range(name, name, "any", "any") FROM PUBLIC;

CREATE FUNCTION shardlet.assign_key(map name, shard name, VARIADIC key "any")
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_assign_key';
COMMENT ON FUNCTION shardlet.assign_key(name, name, "any")
	IS 'gives one key of a list map to a shard, or to the least loaded one';
REVOKE ALL ON FUNCTION shardlet.assign_key(name, name, "any") FROM PUBLIC;

CREATE FUNCTION shardlet.assign_keys(map name, shard name, keys anyarray)
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_assign_keys';
COMMENT ON FUNCTION shardlet.assign_keys(name, name, anyarray)
	IS 'gives many keys of a list map to a shard, or to the least loaded ones';
REVOKE ALL ON FUNCTION shardlet.assign_keys(name, name, anyarray) FROM PUBLIC;

CREATE FUNCTION shardlet.assign_default(map name, shard name)
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_assign_default';
COMMENT ON FUNCTION shardlet.assign_default(name, name)
	IS 'gives all keys that a list map does not name to a shard';
REVOKE ALL ON FUNCTION shardlet.assign_default(name, name) FROM PUBLIC;

CREATE FUNCTION shardlet.unassign(shardlet bigint)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_unassign';
COMMENT ON FUNCTION shardlet.unassign(bigint) IS 'takes a shardlet out of its map';
REVOKE ALL ON FUNCTION shardlet.unassign(bigint) FROM PUBLIC;

CREATE FUNCTION shardlet.reassign(shardlet bigint, shard name)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_reassign';
COMMENT ON FUNCTION shardlet.reassign(bigint, name)
	IS 'changes where a shardlet is, in the map only, after its rows were moved by other means';
REVOKE ALL ON FUNCTION shardlet.reassign(bigint, name) FROM PUBLIC;

CREATE FUNCTION shardlet.alter_shardlet(
	shardlet bigint,
	state text DEFAULT NULL,
	pinned bool DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_alter_shardlet';
COMMENT ON FUNCTION shardlet.alter_shardlet(bigint, text, bool)
	IS 'changes the state of a shardlet, or whether it is pinned to its shard';
REVOKE ALL ON FUNCTION shardlet.alter_shardlet(bigint, text, bool) FROM PUBLIC;

CREATE FUNCTION shardlet.split_shardlet(shardlet bigint, at text DEFAULT NULL)
RETURNS SETOF bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 2
AS 'MODULE_PATHNAME', 'shardlet_split_shardlet';
COMMENT ON FUNCTION shardlet.split_shardlet(bigint, text)
	IS 'cuts a shardlet in two, at a token or key, or in the middle';
REVOKE ALL ON FUNCTION shardlet.split_shardlet(bigint, text) FROM PUBLIC;

CREATE FUNCTION shardlet.merge_shardlets(a bigint, b bigint)
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_merge_shardlets';
COMMENT ON FUNCTION shardlet.merge_shardlets(bigint, bigint)
	IS 'makes one shardlet of two neighbours on one shard';
REVOKE ALL ON FUNCTION shardlet.merge_shardlets(bigint, bigint) FROM PUBLIC;

CREATE FUNCTION shardlet.isolate_key(map name, VARIADIC key "any")
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_isolate_key';
COMMENT ON FUNCTION shardlet.isolate_key(name, "any")
	IS 'gives one key of a hash map a shardlet of its own, pinned to its shard';
REVOKE ALL ON FUNCTION shardlet.isolate_key(name, "any") FROM PUBLIC;

CREATE FUNCTION shardlet.refine_map(map name, factor int)
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_refine_map';
COMMENT ON FUNCTION shardlet.refine_map(name, int)
	IS 'makes more shardlets of a list map via a remainder, on the same shards; returns how many there are';
REVOKE ALL ON FUNCTION shardlet.refine_map(name, int) FROM PUBLIC;

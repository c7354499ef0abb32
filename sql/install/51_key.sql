-- The rows of one key, in all tables of its map.
--
-- CALL passes more than one argument for VARIADIC only as an array (PostgreSQL compares the number of arguments with
-- that of parameters), so keys of two, three and four columns have a procedure each.

CREATE FUNCTION shardlet.key_tables(
	map name,
	VARIADIC key "any",
	OUT tbl regclass,
	OUT rows bigint,
	OUT bytes bigint)
RETURNS SETOF record
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_key_tables';
COMMENT ON FUNCTION shardlet.key_tables(name, "any")
	IS 'tables of a map with the rows and bytes that one key has in them, those referred to first';
REVOKE ALL ON FUNCTION shardlet.key_tables(name, "any") FROM PUBLIC;

CREATE FUNCTION shardlet.export_key(map name, VARIADIC key "any")
RETURNS SETOF text
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_export_key';
COMMENT ON FUNCTION shardlet.export_key(name, "any")
	IS 'script for psql that writes the rows of one key into another database';
REVOKE ALL ON FUNCTION shardlet.export_key(name, "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.delete_key(map name, VARIADIC key "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_delete_key';
COMMENT ON PROCEDURE shardlet.delete_key(name, "any")
	IS 'deletes the rows of one key from all tables of a map';
REVOKE ALL ON PROCEDURE shardlet.delete_key(name, "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.delete_key(map name, key1 "any", key2 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_delete_key';
COMMENT ON PROCEDURE shardlet.delete_key(name, "any", "any")
	IS 'deletes the rows of one key from all tables of a map';
REVOKE ALL ON PROCEDURE shardlet.delete_key(name, "any", "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.delete_key(map name, key1 "any", key2 "any", key3 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_delete_key';
COMMENT ON PROCEDURE shardlet.delete_key(name, "any", "any", "any")
	IS 'deletes the rows of one key from all tables of a map';
REVOKE ALL ON PROCEDURE shardlet.delete_key(name, "any", "any", "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.delete_key(map name, key1 "any", key2 "any", key3 "any", key4 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_delete_key';
COMMENT ON PROCEDURE shardlet.delete_key(name, "any", "any", "any", "any")
	IS 'deletes the rows of one key from all tables of a map';
REVOKE ALL ON PROCEDURE shardlet.delete_key(name, "any", "any", "any", "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.copy_key(map name, source text, VARIADIC key "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_copy_key';
COMMENT ON PROCEDURE shardlet.copy_key(name, text, "any")
	IS 'copies the rows of one key of all tables of a map from another database';
REVOKE ALL ON PROCEDURE shardlet.copy_key(name, text, "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.copy_key(map name, source text, key1 "any", key2 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_copy_key';
COMMENT ON PROCEDURE shardlet.copy_key(name, text, "any", "any")
	IS 'copies the rows of one key of all tables of a map from another database';
REVOKE ALL ON PROCEDURE shardlet.copy_key(name, text, "any", "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.copy_key(map name, source text, key1 "any", key2 "any", key3 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_copy_key';
COMMENT ON PROCEDURE shardlet.copy_key(name, text, "any", "any", "any")
	IS 'copies the rows of one key of all tables of a map from another database';
REVOKE ALL ON PROCEDURE shardlet.copy_key(name, text, "any", "any", "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.copy_key(map name, source text, key1 "any", key2 "any", key3 "any", key4 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_copy_key';
COMMENT ON PROCEDURE shardlet.copy_key(name, text, "any", "any", "any", "any")
	IS 'copies the rows of one key of all tables of a map from another database';
REVOKE ALL ON PROCEDURE shardlet.copy_key(name, text, "any", "any", "any", "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.move_key(map name, to_shard name, VARIADIC key "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_move_key';
COMMENT ON PROCEDURE shardlet.move_key(name, name, "any")
	IS 'gives a key a shardlet of its own, moves that online to another shard, and pins it';
REVOKE ALL ON PROCEDURE shardlet.move_key(name, name, "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.move_key(map name, to_shard name, key1 "any", key2 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_move_key';
COMMENT ON PROCEDURE shardlet.move_key(name, name, "any", "any")
	IS 'gives a key a shardlet of its own, moves that online to another shard, and pins it';
REVOKE ALL ON PROCEDURE shardlet.move_key(name, name, "any", "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.move_key(map name, to_shard name, key1 "any", key2 "any", key3 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_move_key';
COMMENT ON PROCEDURE shardlet.move_key(name, name, "any", "any", "any")
	IS 'gives a key a shardlet of its own, moves that online to another shard, and pins it';
REVOKE ALL ON PROCEDURE shardlet.move_key(name, name, "any", "any", "any") FROM PUBLIC;

CREATE PROCEDURE shardlet.move_key(map name, to_shard name, key1 "any", key2 "any", key3 "any", key4 "any")
LANGUAGE c
AS 'MODULE_PATHNAME', 'shardlet_move_key';
COMMENT ON PROCEDURE shardlet.move_key(name, name, "any", "any", "any", "any")
	IS 'gives a key a shardlet of its own, moves that online to another shard, and pins it';
REVOKE ALL ON PROCEDURE shardlet.move_key(name, name, "any", "any", "any", "any") FROM PUBLIC;

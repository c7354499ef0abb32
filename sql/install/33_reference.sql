-- Reference tables, and ids without coordination.

-- Advanced by next_id() only.
CREATE SEQUENCE shardlet.next_id_seq;

CREATE FUNCTION shardlet.next_id()
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_next_id';
COMMENT ON FUNCTION shardlet.next_id()
	IS 'an id that grows with time and is unique over router and shards';

CREATE FUNCTION shardlet.make_reference(tbl regclass)
RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_make_reference';
COMMENT ON FUNCTION shardlet.make_reference(regclass)
	IS 'gives every shard a copy of a table, and keeps it up to date';
REVOKE ALL ON FUNCTION shardlet.make_reference(regclass) FROM PUBLIC;

-- Trigger function; make_reference() creates the triggers.
CREATE FUNCTION shardlet.reference_change()
RETURNS trigger
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_reference_change';
COMMENT ON FUNCTION shardlet.reference_change()
	IS 'trigger: carries changes of a reference table to the shards';
REVOKE ALL ON FUNCTION shardlet.reference_change() FROM PUBLIC;

-- Reference tables, and ids without coordination.

-- Moved by next_id() only.
CREATE SEQUENCE shardlet.next_id_seq;

CREATE FUNCTION shardlet.next_id()
RETURNS bigint
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'shardlet_next_id';
COMMENT ON FUNCTION shardlet.next_id()
	IS 'an id that grows with time and is unique over router and shards';

-- Functions that statements of all users need, under names that no user writes: what the router calls on shards on behalf
-- of its users, and aggregates of its own plans.  USAGE on schema "shardlet" can be revoked, on router and shards, without
-- taking these away.  docs/internals.md has a reason for each one that PUBLIC may execute.
CREATE SCHEMA shardlet_internal;
COMMENT ON SCHEMA shardlet_internal IS 'what shardlet''s own statements call; not for users';
GRANT USAGE ON SCHEMA shardlet_internal TO PUBLIC;


# shardlet.next_id() over sessions, servers and a crash: no id comes twice, and
# none of it makes a transaction one over two databases.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2);
$c->sql(q{
	SELECT shardlet.create_map('m', 'list', '{int}');
	SELECT shardlet.assign_key('m', 's' || g, g) FROM generate_series(1, 2) g;
	SELECT * FROM shardlet.execute('m', 'CREATE TABLE t (id bigint DEFAULT shardlet.next_id() PRIMARY KEY, n serial)');
	CREATE TABLE t (id bigint DEFAULT shardlet.next_id() PRIMARY KEY, n serial);
});

# Sessions of the router and of a shard that was not told to load the library at
# its start insert at the same time.
sub insert_from_sessions
{
	my @sessions = map { $c->psql_begin('INSERT INTO t (n) SELECT g FROM generate_series(1, 3000) g;' x 3, node => $_) }
	  ($c->router) x 4, ($c->shard(1)) x 3, ($c->shard(2)) x 3;
	return join(' ', map { ($c->psql_end($_))[0] } @sessions);
}
is(insert_from_sessions(), join(' ', (0) x 10), 'sessions insert at the same time, and no key comes twice');

# As the ids are given, so they are ordered, and router and shards never meet.
my $all = join "\n", $c->sql('SELECT id FROM t'), $c->shard_sql(1, 'SELECT id FROM t'), $c->shard_sql(2, 'SELECT id FROM t');
my %seen;
is(scalar(grep { $seen{$_}++ } split /\n/, $all), 0, 'no id is there twice');
is(scalar(keys %seen), 90000, 'and all are');

# A crash forgets what was not logged, but never gives an id again: the clock is
# taken out of it by a sequence that is ahead.
$c->sql(q{SELECT setval('shardlet.next_id_seq', last_value + (3600000::bigint << 12)) FROM shardlet.next_id_seq});
my $last = $c->sql('CHECKPOINT; SELECT max(shardlet.next_id()) FROM generate_series(1, 100)');
$last = $c->sql('SELECT max(shardlet.next_id()) FROM generate_series(1, 100)');
$c->kill9($c->router);
$c->start($c->router);
cmp_ok($c->sql('SELECT shardlet.next_id()'), '>', $last, 'after a crash ids go on');
$last = $c->sql('CHECKPOINT; SELECT shardlet.next_id()');
$c->router->restart;
cmp_ok($c->sql('SELECT shardlet.next_id()'), '>', $last, 'and after a restart');

# One shard and an id of the router: that shard's COMMIT is the commit.
my $mark = $c->log_mark($c->shard(1));
$c->sql(q{SELECT setval('shardlet.next_id_seq', last_value - (3500000::bigint << 12)) FROM shardlet.next_id_seq});
$c->sql(q{
	BEGIN;
	SELECT shardlet.next_id() FROM generate_series(1, 10000);
	SELECT * FROM shardlet.query_key('m', 'INSERT INTO t (n) VALUES (0) RETURNING n', NULL, 1) AS q(n int);
	SELECT pg_sleep(1.1);
	SELECT shardlet.next_id();
	COMMIT;
});
unlike($c->log_since($c->shard(1), $mark), qr/PREPARE TRANSACTION/, 'an id of the router is no write of the router');
is($c->shard_sql(1, 'SELECT count(*) FROM t WHERE n = 0'), 1, 'and the row is there');

done_testing();


# Clients read and write while shardlets are moved online: none meets an error
# that it cannot retry, no row is seen twice or missing, and in the end everything
# is as a model says.

use strict;
use warnings;

use MoveLoad;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, router_conf => "log_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $load = MoveLoad->new($c, clients => 4, seconds => $ENV{SL_LONG} ? 60 : 12);
my $moves = 0;

$load->start;
while ($load->runs)
{
	my ($shardlet, $from) = split /\|/, $c->sql(q{SELECT shardlet, shard FROM shardlet.shardlets WHERE map = 'ld' ORDER BY random() LIMIT 1});
	my ($to) = grep { $_ ne $from } sort { rand() <=> 0.5 } qw(s1 s2 s3);
	my ($status, undef, $stderr) = $c->psql_err("CALL shardlet.move_shardlet($shardlet, '$to')");

	is($c->sqlstate_of($status, $stderr), '', "shardlet from $from to $to");
	$moves++ if $status == 0;
}
$load->finish;
cmp_ok($moves, '>', 1, "$moves moves");
is($c->sql('SELECT count(*) FROM shardlet.catalog_stray'), '0', 'nothing is left to be removed');
for my $shard (1 .. 3)
{
	is($c->shard_sql($shard, 'SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_subscription) + (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_prepared_xacts)'),
		'0', "nothing is left on shard $shard");
}
is($c->sql('SELECT sum(n) FROM shardlet.query(\'ld\', \'SELECT count(*) FROM account\', per_shard => true) AS (n bigint)'), '500', 'each row is on one shard only');

done_testing();

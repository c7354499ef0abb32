
# What happens to tables while a shardlet of theirs is moved: rows that come to it by
# an UPDATE of the key.

use strict;
use warnings;

use MoveProbe;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $probe = MoveProbe->new($c, shards => 2);

# Lets a move come to a point, does something, and sees to it that the move ends well.
sub while_moving
{
	my ($mode, $point, $what) = @_;
	my ($status, undef, $stderr) = $c->psql_end($probe->meanwhile($mode, $point, $what));

	is($c->sqlstate_of($status, $stderr), '', "$mode, $point: the move ends");
	return;
}

# Some keys of the shardlet that is moved, and of others on its shard.
sub keys_of
{
	my ($is_moved, $count) = @_;
	return split /\n/, $c->sql(qq{
		SELECT k FROM generate_series(1000, 2000) k, shardlet.locate('mv', k) l
		WHERE l.shard = '@{[$probe->owner]}' AND (l.shardlet = $probe->{shardlet}) = $is_moved LIMIT $count});
}

# A value that is stored out of line must come along, though the UPDATE does not
# name it.
my $body = q{(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 2000) i)};
$c->sql(q{
	CREATE TABLE docs (id bigint PRIMARY KEY, n int, body text, more jsonb);
	ALTER TABLE docs ALTER body SET STORAGE EXTERNAL;
	CREATE TABLE pages (doc_id bigint REFERENCES docs ON UPDATE CASCADE, id int, body text, PRIMARY KEY (doc_id, id));
	ALTER TABLE pages ALTER body SET STORAGE EXTERNAL;
	CREATE TABLE parts (id bigint, at int, body text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
	CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
	CREATE TABLE parts_2 (body text, at int NOT NULL, id bigint NOT NULL);
	ALTER TABLE parts ATTACH PARTITION parts_2 FOR VALUES FROM (10) TO (20);
	ALTER TABLE parts_1 ALTER body SET STORAGE EXTERNAL;
	ALTER TABLE parts_2 ALTER body SET STORAGE EXTERNAL;
	SELECT shardlet.distribute('docs', 'mv', 'id');
	SELECT shardlet.distribute('pages', 'mv', 'doc_id');
	SELECT shardlet.distribute('parts', 'mv', 'id')});
my @from = keys_of('false', 5);
my @to = keys_of('true', 5);
$c->sql("INSERT INTO docs SELECT k, 1, $body, '{\"a\": 1}' FROM unnest(ARRAY[" . join(', ', @from) . ']) k');
$c->sql("INSERT INTO parts SELECT k, at, $body FROM unnest(ARRAY[" . join(', ', @from) . ']) k, unnest(ARRAY[5, 15]) at');
$c->sql("INSERT INTO pages VALUES ($from[4], 1, $body), ($from[3], 1, 'short')");
my $sums = sub { return $c->sql(qq{
	SELECT (SELECT count(*) FROM docs WHERE body = $body AND more = '{"a": 1}'), (SELECT count(*) FROM parts WHERE body = $body)}) };
is($sums->(), '5|10', 'values that are stored out of line');
while_moving('online', 'move_switch', sub {
	my $source = $c->shard($probe->{from});

	$c->sql("UPDATE docs SET id = $to[0], n = n + 1 WHERE id = $from[0]");
	$c->sql("UPDATE parts SET id = $to[0] WHERE id = $from[0]");
	my ($status, undef, $stderr) = $c->psql_err("UPDATE docs SET id = $to[1] WHERE id = $from[1]", node => $source);
	is($c->sqlstate_of($status, $stderr), 'SL003', 'such a value and an UPDATE on the shard');
	like($stderr, qr/row of table "docs" cannot get a key of shardlet $probe->{shardlet} now.*column "body".*HINT:  Change the key through the router/s, 'with a hint');
	is($c->sqlstate("UPDATE parts SET id = $to[1] WHERE id = $from[1] AND at = 15", node => $source), 'SL003', 'in a partition as well');
	is($c->sqlstate("UPDATE parts SET id = $to[1], at = 6 WHERE id = $from[1] AND at = 15", node => $source), '', 'another partition gets all of it');
	is($c->sqlstate("UPDATE docs SET id = $to[1], body = body || '' WHERE id = $from[1]", node => $source), '', 'a value that is written anew');
	is($c->sqlstate("UPDATE docs SET id = $to[3] WHERE id = $from[3]"), '', 'a foreign key that cascades');
	is($c->sqlstate("UPDATE docs SET id = $to[4] WHERE id = $from[4]"), 'SL003', 'unless what refers has such a value');
	is($c->sqlstate("UPDATE docs SET n = 7 WHERE id = $to[0]"), '', 'an UPDATE within the shardlet');
});
is($sums->(), '5|10', 'all values have come along');
is($c->sql("SELECT string_agg((id = ANY ('{" . join(',', @to) . "}'))::text || n, ' ' ORDER BY id = ANY ('{" . join(',', @to) . "}'), n) FROM docs"),
	'false1 false1 true1 true1 true7', 'and all changes');
is($c->sql("SELECT count(*) FROM pages WHERE doc_id IN ($to[3], $from[4])"), '2', 'and rows that refer to them');

# Out of the shardlet they go as they are.
@from = keys_of('true', 5);
@to = keys_of('false', 5);
while_moving('online', 'move_switch', sub {
	my $source = $c->shard($probe->{from});
	my $key = $c->shard_sql($probe->{from}, 'SELECT min(id) FROM docs WHERE id = ANY (\'{' . join(',', @from) . '}\')');

	is($c->sqlstate("UPDATE docs SET id = $to[0] WHERE id = $key", node => $source), '', 'out of the shardlet');
});
is($sums->(), '5|10', 'all values are there');

$c->sql('DROP TABLE pages, docs, parts');
$probe->is_whole('after updates of keys');

done_testing();

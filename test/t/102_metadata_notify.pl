
# Whatever changes an answer of routing is told to listeners, with the version
# that the map then has, once for each change and not when it was rolled back.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 0, local => 2);

# What a listener hears while another session runs the statement.
sub heard
{
	my ($sql) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir . '/change.sql';

	open my $out, '>', $file or die $!;
	print $out $sql;
	close $out;
	my $script = "LISTEN shardlet;\n\\! psql -X -q -v ON_ERROR_STOP=1 -f '$file' -d '"
	  . $c->router->connstr('app') . "' >/dev/null\nSELECT 'end';\n";
	my $output = $c->sql($script);
	return join ', ', $output =~ /notification "shardlet" with payload "([^"]*)"/g;
}

is(heard(q{SELECT shardlet.create_map('m')}), 'm 1', 'create_map');
is(heard(q{SELECT shardlet.create_map('my map', 'range', '{int}', '{s1}')}), 'my map 1', 'a name with a space');
is(heard(q{SELECT shardlet.assign_range('my map', 's1', 0, 1), shardlet.assign_range('my map', 's1', 1, 2)}), 'my map 2, my map 3', 'two changes');
is(heard(q{SELECT shardlet.reassign(1, 's2')}), 'm 2', 'reassign');
is(heard(q{SELECT shardlet.alter_shardlet(1, state => 'offline')}), 'm 3', 'alter_shardlet');
is(heard(q{SELECT shardlet.alter_shard('s2', state => 'read_only')}), 'm 4', 'state of a shard');
is(heard(q{ALTER SERVER s1 OPTIONS (ADD client_address 'elsewhere:1')}), 'm 5, my map 4', 'address of a shard');
is(heard(q{ALTER SERVER s1 RENAME TO first}), 'm 6, my map 5', 'name of a shard');
is(heard(q{SELECT shardlet.alter_map('my map', add_shards => '{s2}')}), 'my map 6', 'alter_map');
is(heard(q{BEGIN; SELECT shardlet.unassign(1); ROLLBACK}), '', 'rolled back');
is(heard(q{BEGIN; SAVEPOINT a; SELECT shardlet.unassign(1); ROLLBACK TO a; SELECT shardlet.unassign(2); COMMIT}), 'm 7', 'rolled back in part');
is(heard(q{SELECT shardlet.route('m', 5)}), '', 'reading is silent');
is(heard(q{SELECT shardlet.drop_map('my map')}), 'my map 7', 'drop_map');
is(heard(q{SELECT shardlet.drop_shard('s2', force => true)}), 'm 8', 'drop_shard');

$c->destroy;
done_testing();

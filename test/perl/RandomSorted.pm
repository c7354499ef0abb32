
# RandomSorted
#	Queries over a sorted subquery, CTE or view, whose order PostgreSQL keeps.
#
#	my $query = $q->sorted_query;    as RandomQuery's top; all its columns are in order
#
# The order is total, so the answer is determined although SQL leaves it open.  What
# could let PostgreSQL sort the rows again, such as a join of the subquery, is not made.
# The first column is sorted upwards, as DISTINCT ON and GROUP BY would sort it.

package RandomSorted;

use strict;
use warnings;

use RandomSchema;

sub sorted_query
{
	my ($self) = @_;
	local $self->{flat} = 1;
	my $source = $self->_sorted_source;
	my @kinds = qw(_sorted_rows _sorted_rows _sorted_rows _sorted_aggregate _sorted_groups _sorted_distinct _sorted_window _sorted_array _sorted_union);
	my $kind = $self->_pick(@kinds);
	my $query = $self->$kind($source);

	$query->{sql} = "$source->{with}$query->{sql}";
	$query->{order} = [ 1 .. @{ $query->{types} } ];
	return $query;
}

# The first row, as plpgsql takes it.
sub sorted_first
{
	my ($self) = @_;
	local $self->{parameters} = 0;
	my $query = $self->sorted_query;
	return { sql => "SELECT first_of(\$q\$$query->{sql}\$q\$)", types => ['text'], order => [1] };
}

### The source

# { sql (for FROM), with (what stands before SELECT), alias, columns }
sub _sorted_source
{
	my ($self) = @_;
	my $alias = 's';

	if ($self->_chance(0.2))
	{
		return { sql => "recent $alias", with => '', alias => $alias, columns => $RandomSchema::tables{recent}{columns} };
	}
	my ($sql, @types) = $self->_sorted_select;
	my @columns = map { [ "c$_", $types[ $_ - 1 ] ] } 1 .. @types;
	my $names = join ', ', map { $_->[0] } @columns;
	my %source = (alias => $alias, columns => \@columns, with => '', sql => "($sql) AS $alias($names)");

	if ($self->_chance(0.25))
	{
		my $inner = { alias => 'i', columns => \@columns };
		$source{sql} = "(SELECT $names FROM ($sql) AS i($names) WHERE " . $self->condition([$inner], 2) . ") AS $alias";
	}
	elsif ($self->_chance(0.35))
	{
		$source{with} = "WITH w($names) AS " . $self->_pick('', '', 'MATERIALIZED ', 'NOT MATERIALIZED ') . "($sql) ";
		$source{sql} = "w $alias";
	}
	return \%source;
}

# A sorted SELECT of one table or two, and the types of its columns; some of the
# columns that it is sorted by are not among these.
sub _sorted_select
{
	my ($self) = @_;
	my @scope = $self->_unique_table;
	my $from = $scope[0]{sql};

	if ($self->_chance(0.3))
	{
		my $right = $self->_unique_table;
		$from .= " JOIN $right->{sql} ON " . $self->_join_condition([@scope], $right, 2);
		push @scope, $right;
	}
	my @columns = $self->_shuffle(grep { $_->[1] !~ /^(doc|arr|flt)$/ } $self->_columns(\@scope));
	my @out = @columns[ 0 .. int rand(@columns > 4 ? 4 : @columns) ];
	my @keys = ($out[0][0], map { $_ . $self->_pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') } $self->_shuffle($self->_unique(\@scope)));

	splice @keys, 1, 0, $self->expression(\@scope, $self->_pick(qw(int text num)), 1) . $self->_pick('', ' DESC') if $self->_chance(0.4);
	# A literal would be the number of a column.
	@keys = grep { /\b(t\d+|recent)\./ } @keys;
	my @where = ((map { $self->_pins($_) } @scope), $self->_chance(0.5) ? $self->condition(\@scope, 2) : ());
	return ('SELECT ' . join(', ', map { $_->[0] } @out) . " FROM $from" . (@where ? ' WHERE ' . join(' AND ', @where) : '') . ' ORDER BY ' . join(', ', @keys), map { $_->[1] } @out);
}

sub _unique_table
{
	my ($self) = @_;
	my @names = grep { $RandomSchema::tables{$_}{unique} } @{ $self->{family} };
	return $self->table($self->_pick(@names ? @names : ('customers', 'orders')));
}

### What is made of it

sub _sorted_where
{
	my ($self, $source) = @_;
	return $self->_chance(0.3) ? ' WHERE ' . $self->condition([$source], 2) : '';
}

sub _sorted_limit
{
	my ($self) = @_;
	return $self->_chance(0.3) ? '' : ' LIMIT ' . $self->_pick(1, 3, 10, 25) . $self->_pick('', '', ' OFFSET 2');
}

sub _sorted_rows
{
	my ($self, $source) = @_;
	my @types = map { $_->[1] } @{ $source->{columns} };
	my @out = map { $self->expression([$source], $_, 1) } @types;
	return { sql => 'SELECT ' . join(', ', @out) . " FROM $source->{sql}" . $self->_sorted_where($source) . $self->_sorted_limit, types => \@types };
}

# An aggregate that shows the order of its rows, as text.
sub _sorted_call
{
	my ($self, $source) = @_;
	my $value = $self->_pick($self->_columns([$source]))->[0];
	return $self->_pick("array_agg($value)::text", "string_agg($value\::text, ',')", "json_agg($value)::text", "jsonb_agg($value)::text", "chain($value\::text)", "xmlagg(xmlelement(name x, $value))::text");
}

sub _sorted_aggregate
{
	my ($self, $source) = @_;
	return { sql => 'SELECT ' . join(', ', $self->_sorted_call($source), $self->_sorted_call($source), 'count(*)') . " FROM $source->{sql}" . $self->_sorted_where($source), types => [qw(text text int)] };
}

# The source is sorted by the group first, so that sorted groups are no other.
sub _sorted_groups
{
	my ($self, $source) = @_;
	my ($first) = map { "$source->{alias}.$_->[0]" } @{ $source->{columns} };
	return { sql => "SELECT $first, " . $self->_sorted_call($source) . ", count(*) FROM $source->{sql}" . $self->_sorted_where($source) . " GROUP BY $first ORDER BY 1", types => [ $source->{columns}[0][1], 'text', 'int' ] };
}

sub _sorted_distinct
{
	my ($self, $source) = @_;
	my ($first, @others) = map { "$source->{alias}.$_->[0]" } @{ $source->{columns} };
	return { sql => "SELECT DISTINCT ON ($first) " . join(', ', $first, @others) . " FROM $source->{sql}" . $self->_sorted_where($source) . $self->_pick('', '', " ORDER BY $first") . $self->_sorted_limit, types => [ map { $_->[1] } @{ $source->{columns} } ] };
}

sub _sorted_window
{
	my ($self, $source) = @_;
	my $column = $self->_pick($self->_columns([$source]));
	my $first = "$source->{alias}.$source->{columns}[0][0]";
	my $window = $self->_pick('OVER ()', 'OVER ()', "OVER (PARTITION BY $first)", "OVER (ORDER BY $first)");
	my $function = $self->_pick("lag($column->[0])", "first_value($column->[0])", "lead($column->[0], 2)");

	return { sql => "SELECT row_number() $window, $function $window, $column->[0] FROM $source->{sql}" . $self->_sorted_where($source) . $self->_sorted_limit, types => [ 'int', $column->[1], $column->[1] ] };
}

sub _sorted_array
{
	my ($self, $source) = @_;
	my $column = $self->_pick($self->_columns([$source]))->[0];
	my $query = "SELECT $column FROM $source->{sql}" . $self->_sorted_where($source);
	return { sql => $self->_pick("SELECT ARRAY($query" . $self->_sorted_limit . ')::text', "SELECT ($query LIMIT 1)::text"), types => ['text'] };
}

# A union that is sorted as a whole.
sub _sorted_union
{
	my ($self, $source) = @_;
	my @columns = @{ $source->{columns} };
	my $names = join ', ', map { "$source->{alias}.$_->[0]" } @columns;
	my $union = "SELECT $names FROM $source->{sql}" . $self->_pick(' UNION ALL ', ' UNION ', ' EXCEPT ALL ') . "SELECT $names FROM $source->{sql}" . $self->_sorted_where($source);

	return { sql => "SELECT * FROM ($union ORDER BY " . $self->_all_columns(\@columns) . ') u' . $self->_sorted_limit, types => [ map { $_->[1] } @columns ] };
}

1;

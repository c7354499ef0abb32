
# RandomQuery
#	Random queries over the tables of RandomSchema whose results are defined by SQL.
#
#	my $q = RandomQuery->new(seed => 42, parameters => 1);
#	my $query = $q->top;
#	print "$query->{sql}\n";
#
# What would let two correct servers differ is not made: LIMIT without an order of
# all columns, aggregates that depend on the order of rows without ORDER BY (but see RandomSorted), sums of
# inexact numbers, numbers that are equal and look different (all numeric columns
# have two digits, and so has what is computed from them), errors that depend on
# which row comes first.
#
# A relation is a hash of "alias", "columns" ([name, type, domain] each), "table" if
# it is one of RandomSchema's, and "unique" (names of columns that identify a row).
# A scope is a list of relations; expressions are made for a type and a scope.

package RandomQuery;

use strict;
use warnings;

use RandomSchema;

use parent qw(RandomExpression RandomSorted);

# Tables of one map come together more often than by chance.
my @customer_family = qw(customers customers orders orders items loose open_orders sums quiet recent products regions);
my @families = (
	(\@customer_family) x 4,
	[qw(accounts entries)],
	[qw(config limits)],
	[qw(sites regions)],
	[qw(tree readings events customers notes)],
);

# A statement has a style:
#	one   its tables are of one map, and all have the same key: it could go to a shard
#	each  its tables are of one map and mostly joined by key: each shard could answer
#	any   whatever comes
#
# new(seed => number, parameters => bool): with parameters some of the literals
# become parameters, and "values" of a query are the lists to run it with.
sub new
{
	my ($class, %option) = @_;
	srand($option{seed});
	my $self = bless { %option, aliases => 0, types => [], ctes => [] }, $class;
	$self->{style} = $self->_pick(qw(one one each each each any any));
	$self->{family} = $self->_pick(@families);
	return $self;
}

# A whole query: { sql, types, order (numbers of columns that it is sorted by), values }.
sub top
{
	my ($self) = @_;
	my $query = $self->_chance(0.12) ? $self->_with : $self->_chance(0.1) ? $self->_set_operation(0) : $self->_chance(0.12) ? $self->sorted_query
		: $self->_chance(0.02) ? $self->sorted_first : $self->query(0);

	@$query{qw(sql values)} = $self->with_values($query->{sql});
	return $query;
}

# The SQL with its parameters numbered again, because not all that was made is used,
# and lists of values for them, enough of these for a generic plan; none if it has no
# parameters.
sub with_values
{
	my ($self, $sql) = @_;
	my (%number, @domains);

	$sql =~ s{\$(\d+)}{ $number{$1} //= push @domains, $self->{types}[ $1 - 1 ]; "\$$number{$1}" }ge;
	return ($sql, @domains ? [ map { [ map { $self->_chance(0.07) ? undef : $self->_value($_) } @domains ] } 1 .. 7 ] : undef);
}

### Subqueries

# EXISTS, IN, comparisons with a scalar, ANY, ALL; correlated or not.
sub _subquery_condition
{
	my ($self, $scope, $depth) = @_;
	my $chance = rand;

	if ($chance < 0.4)
	{
		my $inner = $self->_relation($depth);
		my @conditions = ($self->_join_condition($scope, $inner, $depth));
		push @conditions, $self->condition([$inner], $depth + 1) if $self->_chance(0.4);
		push @conditions, $self->condition([ @$scope, $inner ], $depth + 1) if $self->_chance(0.2);
		return $self->_pick('', 'NOT ') . 'EXISTS (SELECT ' . $self->_pick('', '1', '*') . " FROM $inner->{sql} WHERE " . join(' AND ', @conditions) . ')';
	}
	my $column = $self->_pick(grep { $_->[1] !~ /^(doc|arr)$/ } $self->_columns($scope)) // return 'true';
	if ($chance < 0.75)
	{
		my $query = $self->_chance(0.5) ? $self->_column_query($scope, $column, $depth) : $self->query($depth, $column->[1])->{sql};
		return "$column->[0] " . $self->_pick('IN', 'IN', 'NOT IN', '= ANY', $self->_operator . ' ALL') . " ($query)";
	}
	return "$column->[0] " . $self->_operator . ' ' . $self->_scalar_subquery($scope, $column->[1], $depth);
}

# A column of a table that has values like this one's, perhaps for rows that go
# with the outer one.
sub _column_query
{
	my ($self, $scope, $column, $depth) = @_;
	my $inner = $self->_relation($depth);
	my @same = grep { $_->[1] eq $column->[1] } $self->_columns([$inner]);
	my @alike = grep { $_->[2] eq $column->[2] } @same;
	my @conditions;

	return $self->query($depth, $column->[1])->{sql} if !@same;
	push @conditions, $self->condition([$inner], $depth + 1) if $self->_chance(0.6);
	push @conditions, $self->_join_condition($scope, $inner, $depth) if $self->_chance(0.3);
	return 'SELECT ' . $self->_pick(@alike ? @alike : @same)->[0] . " FROM $inner->{sql}" . (@conditions ? ' WHERE ' . join(' AND ', @conditions) : '');
}

# A subquery with at most one row.
sub _scalar_subquery
{
	my ($self, $scope, $type, $depth) = @_;
	my $inner = $self->_relation($depth + 1);
	my @conditions;

	push @conditions, $self->_join_condition($scope, $inner, $depth) if $self->_chance(0.6);
	push @conditions, $self->condition([$inner], $depth + 1) if $self->_chance(0.4);
	my $where = @conditions ? ' WHERE ' . join(' AND ', @conditions) : '';
	if ($self->_chance(0.3))
	{
		my $expression = $self->expression([$inner], $type, $depth + 1);
		return "(SELECT $expression FROM $inner->{sql}$where ORDER BY 1" . $self->_pick('', ' DESC', ' NULLS FIRST') . ' LIMIT 1)';
	}
	return '(SELECT ' . $self->_aggregate([$inner], $type, $depth + 1) . " FROM $inner->{sql}$where)";
}

### FROM

sub _alias
{
	my ($self) = @_;
	return 't' . ++$self->{aliases};
}

# A table of this statement's family, mostly.
sub _table_name
{
	my ($self) = @_;
	return $self->_pick(@{ $self->{family} }) if $self->_chance($self->{style} eq 'any' ? 0.75 : 0.98);
	return $self->_pick(@RandomSchema::order, @RandomSchema::views);
}

sub table
{
	my ($self, $name, $alias) = @_;
	my $table = $RandomSchema::tables{$name};
	$alias //= $self->_alias;
	return { alias => $alias, sql => "$name $alias", columns => $table->{columns}, table => $table, unique => $table->{unique}, name => $name };
}

# Something for FROM; "scope", if given, is what a lateral subquery may see.
sub _relation
{
	my ($self, $depth, $scope) = @_;
	my $chance = rand;

	if (@{ $self->{ctes} } && $self->_chance(0.5))
	{
		my $cte = $self->_pick(@{ $self->{ctes} });
		my $alias = $self->_alias;
		return { %$cte, alias => $alias, sql => "$cte->{name} $alias" };
	}
	if ($depth < 2 && $chance < 0.16)
	{
		my $lateral = $scope && $self->_chance(0.5);
		my $query = $lateral ? $self->_lateral($scope, $depth + 1) : $self->_chance(0.1) ? $self->_set_operation($depth + 1) : $self->query($depth + 1);
		return $self->_named($query, '(', ')', $lateral ? 'LATERAL ' : '', @{ $query->{types} });
	}
	if ($chance < 0.19)
	{
		my $rows = join ', ', map { '(' . $self->_literal('customer') . ', ' . $self->_literal('letter') . ')' } 1 .. $self->_pick(1, 3);
		return $self->_named({ sql => "VALUES $rows" }, '(', ')', '', 'int', 'text');
	}
	return $self->_aliased_join if $chance < 0.21;
	return $self->_named({ sql => 'generate_series(' . $self->_pick(1, 3, 7) . ', ' . $self->_pick(5, 8) . ')' }, '', '', '', 'int') if $chance < 0.23;
	return $self->table($self->_table_name);
}

# A subquery, or a function, as a relation with columns of our names.
sub _named
{
	my ($self, $query, $before, $after, $lateral, @types) = @_;
	my $alias = $self->_alias;
	my @columns = map { [ "c$_", $types[ $_ - 1 ] ] } 1 .. @types;
	my $names = join ', ', map { $_->[0] } @columns;
	return { alias => $alias, sql => "$lateral$before$query->{sql}$after AS $alias($names)", columns => \@columns, is_lateral => $lateral ne '' };
}

# A join that hides the names of its tables.
sub _aliased_join
{
	my ($self) = @_;
	my ($left, $right) = map { $self->table($self->_table_name) } 1, 2;
	my @types = map { $_->[1] } map { @{ $_->{columns} } } $left, $right;
	my $sql = "$left->{sql} " . $self->_pick('JOIN', 'LEFT JOIN') . " $right->{sql} ON " . $self->_join_condition([$left], $right, 2);
	return $self->_named({ sql => $sql }, '(', ')', '', @types);
}

# A subquery that sees what stands to the left of it.
sub _lateral
{
	my ($self, $scope, $depth) = @_;
	my $inner = $self->_relation(2);
	my @types = $self->_types([$inner]);
	my $condition = $self->_join_condition($scope, $inner, $depth);
	my @out = map { $self->expression([ $inner, @$scope ], $_, 2) } @types;
	my $sql = 'SELECT ' . join(', ', @out) . " FROM $inner->{sql} WHERE $condition";

	$sql = 'SELECT ' . join(', ', map { $self->_aggregate([$inner], $_, 2) } @types) . " FROM $inner->{sql} WHERE $condition" if $self->_chance(0.4);
	$sql .= ' ORDER BY ' . $self->_all_columns(\@types) . ' LIMIT ' . $self->_pick(1, 2, 3) if $self->_chance(0.4) && _sortable(@types);
	return { sql => $sql, types => \@types };
}

# Equality of keys where both have one of the same map, else of columns that hold
# like values, else of any of one type.
sub _join_condition
{
	my ($self, $scope, $right, $depth) = @_;
	my @conditions;
	my @partners = grep { $_->{table} && $right->{table} && $_->{table}{key} && $right->{table}{key} && $_->{table}{map} eq $right->{table}{map} } @$scope;

	if (@partners && $self->_chance($self->{style} eq 'any' ? 0.6 : 0.95))
	{
		my $left = $self->_pick(@partners);
		my @keys = map { [ $left->{table}{key}[$_], $right->{table}{key}[$_] ] } 0 .. $#{ $left->{table}{key} };
		push @keys, [ 'order_id', 'order_id' ] if $self->_chance(0.6) && 2 == grep { my $r = $_; grep { $_->[0] eq 'order_id' } @{ $r->{columns} } } $left, $right;
		push @conditions, map { "$left->{alias}.$_->[0] = $right->{alias}.$_->[1]" } @keys;
	}
	if (!@conditions)
	{
		my @left = grep { $_->[1] !~ /^(bool|doc|arr|flt)$/ } $self->_columns($scope);
		my @pairs;
		for my $r ($self->_columns([$right]))
		{
			push @pairs, map { [ $_, $r, $_->[2] eq $r->[2] ] } grep { $_->[1] eq $r->[1] } @left;
		}
		my @alike = grep { $_->[2] && $_->[0][2] !~ /^(small|int|date|letter)$/ } @pairs;
		my $pair = $self->_pick(@alike && $self->_chance(0.7) ? @alike : @pairs);
		push @conditions, "$pair->[0][0] " . ($self->_chance(0.93) ? '=' : $self->_pick('<', '>=', '<>', 'IS NOT DISTINCT FROM')) . " $pair->[1][0]" if $pair;
	}
	push @conditions, $self->condition([ @$scope, $right ], 2) if !@conditions || $self->_chance(0.2);
	push @conditions, $self->_pins($right) if $self->_chance(0.5);
	return join ' AND ', @conditions;
}

# Conditions that pin a relation to the statement's one key; none in other styles.
sub _pins
{
	my ($self, $relation) = @_;
	my $table = $relation->{table};
	my @conditions;

	return if $self->{style} ne 'one' || !$table || !$table->{key} || $self->_chance(0.03);
	for my $key (@{ $table->{key} })
	{
		my ($column) = grep { $_->[0] eq $key } @{ $relation->{columns} };
		my $value = $self->{pins}{"$table->{map} $column->[2]"} //= $self->_literal($column->[2], 1);
		push @conditions, "$relation->{alias}.$key = $value";
	}
	return @conditions;
}

# Text of FROM, and what is in it.
sub _from
{
	my ($self, $depth) = @_;
	my @scope = $self->_relation($depth);
	my $sql = $scope[0]{sql};
	my $count = $depth ? $self->_pick(0, 0, 1) : $self->_pick(0, 0, 1, 1, 1, 2, 2, 3);

	for (1 .. $count)
	{
		my $join = $self->_pick('JOIN', 'JOIN', 'LEFT JOIN', 'LEFT JOIN', 'RIGHT JOIN', 'FULL JOIN');
		my $right = $self->_relation($depth + 1, $join =~ /^(LEFT )?JOIN/ ? [@scope] : undef);
		my $condition = $self->_join_condition(\@scope, $right, $depth);

		if ($self->_chance(0.06) && $join eq 'JOIN')
		{
			$sql .= " CROSS JOIN $right->{sql}";
		}
		else
		{
			$condition = join ' AND ', grep { /^t\d+\.\w+ = t\d+\.\w+$/ } split / AND /, $condition if $join eq 'FULL JOIN';
			$condition = $right->{is_lateral} ? 'true' : $condition;
			($join, $condition) = ('JOIN', 'true') if $condition eq '';
			$sql .= " $join $right->{sql} ON $condition";
		}
		push @scope, $right;
	}
	return ($sql, \@scope);
}

### SELECT

# query(depth, types): a query with columns of these types, or of any.
sub query
{
	my ($self, $depth, @types) = @_;
	my ($from, $scope) = $self->_from($depth);
	my @where = ((map { $self->_pins($_) } @$scope), map { $self->condition($scope, $depth) } 1 .. $self->_pick(0, 0, 1, 1, 1, 2));
	my $body = "FROM $from" . (@where ? ' WHERE ' . join(' AND ', @where) : '');
	my $chance = rand;

	@types = $self->_types($scope) if !@types;
	return $self->_grouped($scope, $body, $depth, @types) if $chance < 0.35;
	return $self->_distinct_on($scope, $body, @types) if $chance < 0.38 && _sortable(@types);
	my @out = map { $self->_chance($depth ? 0.03 : 0.08) && $self->_window($scope, $_) || $self->expression($scope, $_, 0) } @types;
	my $distinct = $chance > 0.9 && _sortable(@types) ? 'DISTINCT ' : '';
	my $query = $self->_ordered("SELECT $distinct" . join(', ', @out) . " $body", $depth, @types);
	$self->_lock($query, $scope) if !$depth && $distinct eq '' && $query->{sql} !~ /OVER|LIMIT|FETCH/ && $self->_chance(0.05);
	return $query;
}

sub _sortable
{
	return !grep { $_ eq 'doc' } @_;
}

# FOR UPDATE of tables that no outer join makes NULL.
sub _lock
{
	my ($self, $query, $scope) = @_;
	my @tables = grep { $_->{table} && $_->{table}{kind} ne 'view' } @$scope;

	return if !@tables || $query->{sql} =~ /(LEFT|RIGHT|FULL) JOIN/;
	$query->{sql} .= $self->_pick(' FOR UPDATE', ' FOR SHARE', ' FOR NO KEY UPDATE') . ' OF ' . join(', ', map { $_->{alias} } @tables);
	return;
}

# All columns, each in some direction.
sub _all_columns
{
	my ($self, $types) = @_;
	return join ', ', map { $_ . $self->_pick('', '', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST') } $self->_shuffle(1 .. @$types);
}

# Perhaps an order, and with one by all columns perhaps a limit.
sub _ordered
{
	my ($self, $sql, $depth, @types) = @_;
	my %query = (sql => $sql, types => \@types, order => []);

	return \%query if !_sortable(@types) || !$self->_chance($depth ? 0.15 : 0.45);
	if ($self->_chance(0.6))
	{
		my $columns = $self->_all_columns(\@types);
		$query{order} = [ $columns =~ /(\d+)/g ];
		$query{sql} .= " ORDER BY $columns" . $self->_limit;
		return \%query;
	}
	my @columns = ($self->_shuffle(1 .. @types))[ 0 .. int rand @types ];
	$query{order} = \@columns;
	$query{sql} .= ' ORDER BY ' . join(', ', map { $_ . $self->_pick('', ' DESC') } @columns);
	$query{sql} .= ' FETCH FIRST ' . $self->_pick(1, 4, 9) . ' ROWS WITH TIES' if $self->_chance(0.2);
	return \%query;
}

sub _limit
{
	my ($self) = @_;
	my $number = sub {
		my $value = $self->_pick(@_);
		return $value if !$self->{parameters} || $self->_chance(0.6);
		push @{ $self->{types} }, 'product';
		return '$' . @{ $self->{types} };
	};
	return '' if $self->_chance(0.3);
	return ' LIMIT ' . $number->(0, 1, 3, 3, 10, 10, 25, 25) . ($self->_chance(0.35) ? ' OFFSET ' . $number->(0, 1, 1, 2, 5, 20) : '');
}

sub _distinct_on
{
	my ($self, $scope, $body, @types) = @_;
	my @out = map { $self->expression($scope, $_, 1) } @types;
	my @columns = $self->_shuffle(1 .. @types);

	# A literal would be the number of a column.
	my $first = $columns[0] - 1;
	my ($column) = $self->_shuffle($self->_columns($scope, $types[$first]));
	return $self->query(2, @types) if !$column || 1 < grep { $_ eq $out[$first] || $_ eq $column->[0] } @out;
	$out[$first] = $column->[0] if $out[$first] !~ /^t\d/;
	my $order = join ', ', map { $_ . $self->_pick('', ' DESC') } @columns;
	return { sql => "SELECT DISTINCT ON ($out[$first]) " . join(', ', @out) . " $body ORDER BY $order", types => \@types, order => \@columns };
}

# A window function whose result does not depend on the order of equal rows; undef
# if there is none of the type.
sub _window
{
	my ($self, $scope, $type) = @_;
	my @unique = $self->_unique($scope);
	my @columns = grep { $_->[1] ne 'doc' } $self->_columns($scope);

	return if !@columns;
	my @keys = map { my $r = $_; map { "$r->{alias}.$_" } @{ $r->{table}{key} } } grep { $_->{table} && $_->{table}{key} } @$scope;
	my $partition = $self->_chance(0.3) ? '' : 'PARTITION BY ' . ($self->_chance(0.5) && @keys ? join ', ', @keys : $self->_pick(@columns)->[0]) . ' ';
	my $order = $self->_chance(0.5) ? 'ORDER BY ' . $self->_pick(@columns)->[0] . $self->_pick('', ' DESC', ' NULLS FIRST') : '';
	my $value = $self->expression($scope, $type, 2);

	if (@unique && $self->_chance(0.4))
	{
		my $total = "(${partition}ORDER BY " . join(', ', @unique) . $self->_pick('', '', ' ROWS BETWEEN 1 PRECEDING AND CURRENT ROW') . ')';
		return $self->_pick('row_number()', 'ntile(3)') . " OVER $total" if $type eq 'int' && $self->_chance(0.5);
		return $self->_pick("lag($value)", "lead($value, 2)", "first_value($value)", "last_value($value)", "nth_value($value, 2)") . " OVER $total";
	}
	return $self->_pick('rank()', 'dense_rank()') . " OVER ($partition$order)" if $type eq 'int' && $order ne '' && $self->_chance(0.5);
	return $self->_pick('count(*)', "sum($value)", "max($value)") . " OVER ($partition$order)" if $type eq 'int';
	return $self->_pick(qw(sum min max)) . "($value) OVER ($partition$order)" if $type eq 'num' || $type eq 'flt';
	return $self->_pick(qw(min max)) . "($value) OVER ($partition$order)" if $type =~ /^(text|date|ts|mood)$/;
	return;
}

# Columns that identify a row of the join; none if there are no such.
sub _unique
{
	my ($self, $scope) = @_;
	return if grep { !$_->{unique} } @$scope;
	return map { my $r = $_; map { "$r->{alias}.$_" } @{ $r->{unique} } } @$scope;
}

### GROUP BY

sub _grouped
{
	my ($self, $scope, $body, $depth, @types) = @_;
	my @groups = $self->_groups($scope);
	my (@out, $group_by);

	# Now and then most aggregates are over the key, to meet each other.
	local $self->{key_share} = $self->_chance(0.2) ? 0.8 : 0.05;
	for my $type (@types)
	{
		my @fitting = grep { $_->[1] eq $type } @groups;
		push @out, @fitting && $self->_chance(0.6) ? $self->_pick(@fitting)->[0] : $self->_aggregate($scope, $type, 1);
	}
	$group_by = join ', ', map { $_->[0] } @groups;
	if (@groups && $self->_chance(0.1))
	{
		$group_by = $self->_pick("ROLLUP ($group_by)", "CUBE ($group_by)", 'GROUPING SETS (' . join(', ', map { "($_->[0])" } @groups) . ', ())', "GROUPING SETS (($group_by), ())");
	}
	$body .= " GROUP BY $group_by" if @groups;
	$body .= ' HAVING ' . $self->_having($scope) if $self->_chance(0.2);
	my $distinct = $self->_chance(0.05) && _sortable(@types) ? 'DISTINCT ' : '';
	my $query = $self->_ordered("SELECT $distinct" . join(', ', @out) . " $body", $depth, @types);
	$query->{sql} .= ' ORDER BY ' . $self->_aggregate($scope, 'int', 2) if $query->{sql} !~ /ORDER BY [^()]*$/ && !@{ $query->{order} } && $distinct eq '' && $self->_chance(0.1);
	return $query;
}

# Expressions to group by, as [expression, type]; often the key.
sub _groups
{
	my ($self, $scope) = @_;
	my @groups;
	my @with_key = grep { $_->{table} && $_->{table}{key} } @$scope;

	if (@with_key && $self->_chance($self->{style} eq 'each' ? 0.55 : 0.3))
	{
		my $relation = $self->_pick(@with_key);
		for my $key (@{ $relation->{table}{key} })
		{
			push @groups, map { [ "$relation->{alias}.$key", $_->[1] ] } grep { $_->[0] eq $key } @{ $relation->{columns} };
		}
	}
	for (1 .. $self->_pick(0, 1, 1, 2))
	{
		my @columns = grep { $_->[1] ne 'doc' } $self->_columns($scope);
		my $column = $self->_pick(@columns) // last;
		my $type = $column->[1];
		my $expression = $self->_chance(0.7) ? $column->[0] : $self->expression($scope, $type, 2);
		# A literal would be no group, a number even the place of a column.
		push @groups, [ $expression, $type ] if $expression =~ /\bt\d+\./ && $expression !~ /\$/;
	}
	my %seen;
	return grep { !$seen{ $_->[0] }++ } @groups;
}

sub _having
{
	my ($self, $scope) = @_;
	my $type = $self->_pick(qw(int int num text bool));

	return $self->_aggregate($scope, 'bool', 2) if $type eq 'bool';
	return $self->_aggregate($scope, $type, 2) . ' ' . $self->_operator . ' ' . ($self->_chance(0.8) ? $self->_literal($type, 1) : $self->_aggregate($scope, $type, 2));
}

# An aggregate of a type, and sometimes an expression over aggregates.
sub _aggregate
{
	my ($self, $scope, $type, $depth) = @_;
	my $of = sub { $self->expression($scope, $_[0], $depth + 1) };
	my $text_of = sub { my $x = $of->($_[0]); return ($x, $x) };
	my $distinct = $self->_chance(0.15) ? 'DISTINCT ' : '';
	my ($call, $x);

	if ($depth < 2 && $self->_chance(0.12))
	{
		my ($a, $b) = map { $self->_aggregate($scope, $type, 2) } 1, 2;
		return "($a + $b)" if $type eq 'int' || $type eq 'num';
		return "coalesce($a, $b)";
	}
	if (($type eq 'int' || $type eq 'num') && $self->_chance($self->{key_share} // 0.05))
	{
		$call = $self->_aggregate_of_key($scope, $type);
		return $call if $call;
	}
	my $choice = int rand 8;
	if ($type eq 'int')
	{
		$call = $choice <= 1 ? 'count(*)' : $choice == 2 ? 'count(' . $of->($self->_type) . ')' : $choice == 3 ? 'count(DISTINCT ' . $of->($self->_pick(qw(int text num date mood))) . ')'
			: $choice == 4 ? 'sum(' . $distinct . $of->('int') . ')' : $choice == 5 ? $self->_pick(qw(max min)) . '(' . $of->('int') . ')'
			: $choice == 6 ? $self->_pick(qw(bit_and bit_or bit_xor)) . '((' . $of->('int') . ')::int)'
			: 'percentile_disc(0.5) WITHIN GROUP (ORDER BY ' . $of->('int') . ')';
	}
	elsif ($type eq 'num')
	{
		$x = $of->($self->_pick('num', 'num', 'int'));
		$call = $choice <= 1 ? 'sum(' . $distinct . $of->('num') . ')' : $choice == 2 ? $self->_pick(qw(max min)) . '(' . $of->('num') . ')'
			: $choice <= 4 ? "round(avg($distinct$x) FILTER, 2)"
			: 'round(' . $self->_pick(qw(stddev stddev_pop stddev_samp variance var_pop var_samp)) . "($x) FILTER, 2)";
		$call = 'round((' . $self->_pick(qw(regr_slope regr_avgx corr covar_pop covar_samp regr_r2 regr_sxx)) . '(' . $of->('int') . ', ' . $of->('int') . ') FILTER)::numeric, 2)' if $self->_chance(0.08);
	}
	elsif ($type eq 'text')
	{
		$x = $of->('text');
		$call = $choice <= 1 ? $self->_pick(qw(max min)) . "($x)" : $choice <= 3 ? "string_agg($distinct$x, ',' ORDER BY $x)" : $choice == 4 ? "mode() WITHIN GROUP (ORDER BY $x)"
			: $choice == 5 ? "array_to_string(array_agg($x ORDER BY $x DESC) FILTER, '/', '-')" : $choice == 6 ? "(json_agg($x ORDER BY $x) FILTER)::text"
			: "percentile_disc(0.3) WITHIN GROUP (ORDER BY $x)";
	}
	elsif ($type eq 'bool')
	{
		$call = $self->_pick(qw(bool_and bool_or every)) . '(' . $self->condition($scope, 2) . ')';
	}
	elsif ($type eq 'arr')
	{
		$x = $of->('int');
		$call = "array_agg($distinct($x)::int ORDER BY ($x)::int)";
	}
	elsif ($type eq 'doc')
	{
		$x = $of->('text');
		$call = "jsonb_agg($x ORDER BY $x)";
	}
	elsif ($type eq 'flt')
	{
		$call = $self->_pick(qw(sum min max avg)) . '(' . ($self->_columns($scope, 'flt') ? $self->_pick($self->_columns($scope, 'flt'))->[0] : '0.25::float8') . ')';
	}
	else
	{
		$call = $self->_pick(qw(min max)) . '(' . $of->($type) . ')';
	}
	my $filter = $self->_chance(0.15) ? ' FILTER (WHERE ' . $self->condition($scope, 2) . ')' : '';
	$call =~ s/ FILTER/$filter/ or $call .= $filter;
	return $call;
}

# One of several aggregates over the same key column, with the same FILTER or none: PostgreSQL lets those
# of one transition function share a state.
sub _aggregate_of_key
{
	my ($self, $scope, $type) = @_;
	my ($relation) = grep { $_->{table} && $_->{table}{key} } @$scope;
	return undef unless $relation;
	my ($column) = grep { $_->[0] eq $relation->{table}{key}[0] } @{ $relation->{columns} };
	return undef unless $column;
	my $x = "$relation->{alias}.$column->[0]";
	my $same = ($self->{same_filter}{$x} //= $self->_chance(0.5) ? '' : ' FILTER (WHERE ' . $self->condition($scope, 2) . ')');
	my $filter = $self->_chance(0.7) ? $same : '';

	return "count($x)$filter" if $column->[1] ne 'int' && $type eq 'int' && $self->_chance(0.5);
	return $type eq 'int' ? "count(DISTINCT $x)$filter" : undef if $column->[1] ne 'int';
	return 'round(' . $self->_pick("avg($x)", "avg(DISTINCT $x)", "var_pop($x)", "stddev($x)") . "$filter, 2)" if $type eq 'num';
	return $self->_pick("count($x)", "count($x)", "count(DISTINCT $x)", "count(DISTINCT $x)", "sum($x)", "sum(DISTINCT $x)", "max($x)") . $filter;
}

### Set operations and WITH

sub _set_operation
{
	my ($self, $depth) = @_;
	my $first = $self->query($depth + 1);
	my @types = @{ $first->{types} };
	my @parts = map { '(' . $self->query($depth + 1, @types)->{sql} . ')' } 1 .. $self->_pick(1, 1, 1, 2);
	my $sql = "($first->{sql})";

	$sql .= ' ' . $self->_pick('UNION ALL', 'UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT', 'EXCEPT ALL', 'INTERSECT ALL') . " $_" for @parts;
	return $self->_ordered($sql, $depth, @types);
}

sub _with
{
	my ($self) = @_;
	my (@texts, $recursive);

	if ($self->_chance(0.25))
	{
		$recursive = 1;
		push @texts, $self->_recursive;
	}
	for my $number (1 .. $self->_pick(1, 1, 2))
	{
		my $query = $self->query(1);
		my @types = @{ $query->{types} };
		push @texts, "w$number AS " . $self->_pick('', '', 'MATERIALIZED ', 'NOT MATERIALIZED ') . "($query->{sql})";
		$texts[-1] =~ s/ AS /'(' . join(', ', map { "c$_" } 1 .. @types) . ') AS '/e;
		push @{ $self->{ctes} }, { name => "w$number", columns => [ map { [ "c$_", $types[ $_ - 1 ] ] } 1 .. @types ] };
	}
	my $main = $self->query(0);
	$main->{sql} = 'WITH ' . ($recursive ? 'RECURSIVE ' : '') . join(', ', @texts) . " $main->{sql}";
	return $main;
}

# The nodes above or below some node, over shards.
sub _recursive
{
	my ($self) = @_;
	my $start = $self->_literal('int');
	my $step = $self->_pick('t.parent = r.c1', 't.node = r.c2', 't.parent = r.c1 AND t.list IS NOT NULL');
	my $union = $self->_pick('UNION', 'UNION ALL');

	push @{ $self->{ctes} }, { name => 'r', columns => [ [qw(c1 int)], [qw(c2 int)], [qw(c3 int)] ] };
	return "r(c1, c2, c3) AS (SELECT node, parent, 1 FROM tree WHERE node = $start $union SELECT t.node, t.parent, r.c3 + 1 FROM tree t JOIN r ON $step WHERE r.c3 < 5)";
}

1;

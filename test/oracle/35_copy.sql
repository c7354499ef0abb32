-- COPY, out and in.

COPY (SELECT * FROM customers ORDER BY customer_id) TO STDOUT;
COPY (SELECT customer_id, order_id, created, total FROM orders WHERE customer_id < 9 ORDER BY 1, 2) TO STDOUT WITH (FORMAT csv, HEADER, NULL 'none');
COPY orders TO STDOUT;
COPY customers (region, customer_id) TO STDOUT WITH (FORMAT csv, FORCE_QUOTE (region));
COPY codes TO STDOUT;
COPY codes TO STDOUT WITH (FORMAT csv, QUOTE '''', ESCAPE '\', DELIMITER ';');
COPY kinds TO STDOUT;
COPY kinds TO STDOUT WITH (FORMAT csv, NULL 'NULL');
COPY big (id, title, body) TO STDOUT;
COPY nothing TO STDOUT WITH (HEADER true);
COPY events TO STDOUT;
COPY config TO STDOUT;
COPY products TO STDOUT;
COPY notes TO STDOUT;
COPY "Odd Schema"."Odd Table" TO STDOUT;
COPY (SELECT c.name, count(o.*) FROM customers c LEFT JOIN orders o USING (customer_id) GROUP BY c.customer_id, c.name ORDER BY c.customer_id) TO STDOUT;
COPY (TABLE holes) TO STDOUT WITH (DELIMITER '|', NULL '');
COPY (VALUES (1, 'a')) TO STDOUT;

-- transaction
COPY (UPDATE orders SET total = 1 WHERE customer_id < 4 RETURNING customer_id, order_id, total) TO STDOUT;
SELECT count(*) FROM orders WHERE total = 1;

-- transaction
COPY customers FROM STDIN;
1001	from copy	north
1002	with null	\N
1003	tab\there	back\\slash
1004		empty name
\.
SELECT * FROM customers WHERE customer_id > 1000 ORDER BY 1;

-- transaction
COPY customers (region, customer_id, name) FROM STDIN WITH (FORMAT csv, HEADER);
region,id,name
north,1001,"quoted, ""name"""
,1002,no region
"",1003,"line
break"
\.

-- transaction
COPY orders (order_id, customer_id, created) FROM STDIN (DELIMITER '|');
100|1|2026-01-01 00:00:00+00
100|2|2026-01-02 00:00:00+00
100|3|2026-01-03 00:00:00+05:45
\.
SELECT * FROM orders WHERE order_id = 100 ORDER BY 1;

-- transaction
COPY tickets (customer_id, weight) FROM STDIN;
1	5
2	\N
3	7
4	8
\.
SELECT customer_id, number > 0, weight, double_weight, title FROM tickets WHERE number >= 1000 ORDER BY 1;
SELECT count(DISTINCT token) = count(*), count(DISTINCT number) FROM tickets WHERE number >= 1000;

-- transaction
COPY skew (v, customer_id, n) FROM STDIN WITH (FORMAT csv, NULL 'null');
a,1,1
null,2,null
,3,3
a,7,1
a,7,1
\.
SELECT * FROM skew WHERE customer_id = 3 OR v = 'a';

-- transaction
COPY nothing FROM STDIN WHERE a > 2;
1	1	one
2	2	two
3	3	three
4	4	four
5	\N	null
\.
COPY nothing FROM STDIN;
\.

-- transaction
COPY regional FROM STDIN;
north	5000	1
south	5000	2
east	5000	3
lemuria	5000	\N
\.
COPY days FROM STDIN;
2025-12-31	9000	a
2026-01-01	9000	b
2026-01-09	9000	c
2026-01-10	9000	d
infinity	9000	e
\.
COPY accounts (tenant, acct, balance) FROM STDIN;
new	1	1.23456
NEW	1	0
ünï	2	9999999999
\.
COPY lonely (id) FROM STDIN;
999
1000
2000
-2147483648
\.
COPY events (id, payload) FROM STDIN;
9000	{"a": "\\"b\\""}
9001	\N
9002	[1,2]
\.
COPY config FROM STDIN;
new	value	7
\.
COPY products FROM STDIN;
700	copied	cat
\.
INSERT INTO items (customer_id, order_id, line, product_id) VALUES (1, 1, 70, 700), (2, 1, 70, 700);
COPY codes (code, rank) FROM STDIN;
täb\tcode	1
\\\\\t	2
x\nY	3
\.
COPY devices FROM STDIN WITH (FORMAT csv);
00000000-0000-0000-0000-000000000001,one,2026-01-01
{00000000-0000-0000-0000-0000000000FF},two,
\.

-- transaction
COPY kinds (id, n, f8, ia, ta, jb, by, m, c, ir, iv, tstz) FROM STDIN;
5000	NaN	-Infinity	{1,NULL}	{a,"b,c",NULL}	{"a": [1]}	\\x00ff	sad	(1,,"x ""y""")	[1,5)	1 mon	2026-03-29 02:30:00+02
5001	\N	1e-300	{}	{}	null	\\x	happy	\N	empty	-00:00:01	infinity
\.
SELECT id, n, f8, ia, ta, jb, by, m, c, ir, iv, tstz FROM kinds WHERE id >= 5000 ORDER BY id;

-- transaction
SET LOCAL timezone = 'Asia/Kathmandu';
SET LOCAL datestyle = 'SQL, DMY';
COPY orders (customer_id, order_id, created) FROM STDIN;
1	800	05/06/2026 01:30
2	800	06/05/2026 01:30
\.
SELECT customer_id, created FROM orders WHERE order_id = 800 ORDER BY 1;
COPY (SELECT customer_id, created FROM orders WHERE order_id IN (1, 800) AND customer_id < 4 ORDER BY 1, 2) TO STDOUT;

-- transaction
-- fails 23505
-- sqlstate
COPY customers FROM STDIN;
2001	x	y
5	double	y
\.

-- transaction
-- fails 22P02
COPY customers FROM STDIN;
2001	x	y
seven	double	y
\.

-- transaction
-- fails 22P04
COPY customers FROM STDIN;
2001	x	y	too many
\.

-- transaction
-- fails 22P04
COPY customers FROM STDIN;
2001	x
\.

-- transaction
-- fails 23502
-- sqlstate
COPY customers FROM STDIN;
2001	\N	y
\.

-- transaction
-- fails 23514
-- sqlstate
COPY orders (customer_id, order_id, created, status) FROM STDIN;
3	900	2026-01-01	odd
\.

-- transaction
-- fails 23503
-- sqlstate
COPY orders (customer_id, order_id, created) FROM STDIN;
3	900	2026-01-01
77777	900	2026-01-01
\.

-- transaction
-- fails 42703
COPY customers (customer_id, nome) FROM STDIN;
\.

-- transaction
SAVEPOINT a;
-- fails 23505
-- sqlstate
COPY customers FROM STDIN;
3001	x	y
3002	x	y
5	double	y
\.
ROLLBACK TO a;
SELECT count(*) FROM customers WHERE customer_id > 1000;
COPY customers FROM STDIN;
3001	x	y
\.
SELECT count(*) FROM customers WHERE customer_id > 1000;

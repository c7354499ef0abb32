# Tables as Rails makes them: a key of its own for each, references by it.  CREATE TABLE distributes them.
class CreateStockTables < ActiveRecord::Migration[6.1]
  def change
    up_only { execute "SET LOCAL shardlet.new_tables = 'tenants:tenant_id:local_unique'" }
    create_table :projects do |t|
      t.references :tenant, null: false, foreign_key: true
      t.string :name, null: false
      t.timestamps
      t.index [:tenant_id, :name], unique: true
    end
    create_table :tasks do |t|
      t.references :tenant, null: false, foreign_key: { on_delete: :cascade }
      t.references :project, null: false, foreign_key: { on_delete: :cascade }
      t.string :title
      t.integer :position, index: true
    end
    add_column :tasks, :done, :boolean, null: false, default: false
    create_table :settings do |t|
      t.string :name
    end
  end
end

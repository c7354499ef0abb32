class AddIndexConcurrently < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!

  def change
    add_index :customers, :created_at, algorithm: :concurrently, name: "customers_created"
  end
end
